"use strict";
// Sort a table by the column whose heading is pressed; numbers as numbers, and again reverses.
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th");
    const column = heading.cellIndex;
    const body = heading.closest("table").tBodies[0];
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.key;
    const compare = (a, b) => {
      const [x, y] = [Number(key(a).replace("inf", "Infinity")), Number(key(b).replace("inf", "Infinity"))];
      if (Number.isNaN(x) || Number.isNaN(y)) return key(a).localeCompare(key(b));
      return x === y ? 0 : x - y;
    };
    const rows = Array.from(body.rows).sort(compare);
    body.append(...(ascending ? rows : rows.reverse()));
  });
}
