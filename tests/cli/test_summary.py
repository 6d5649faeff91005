import dataclasses
import io

from rich.console import Console

from skinny.cli import demo, summary
from skinny.training import RunFolder, recipe


def finished(path, *, sparsity, size, seed=0):
    """A run folder of a network of `size` weights, with an outcome written by hand."""
    method = "sdnn" if sparsity else "dense"
    config = dataclasses.replace(recipe("demo"), method=method, sparsity=sparsity, seed=seed)
    folder = RunFolder(path / config.run_name)
    kept = round(size * (1 - sparsity))
    packed = 4 * kept + (kept if sparsity else 10_000)
    with folder:
        folder.claim(config)
        folder.write_result(
            {
                "test_accuracy": 0.9876,
                "test_images": [10, 10],
                "test_errors": [0, 0],
                "classes": ["cat", "dog"],
                "weights": {"features.conv1.weight": {"size": size, "kept": kept}},
                "bytes": {"dense": 4 * size, "packed": packed},
            }
        )
    return folder


def narrow():
    return Console(file=io.StringIO(), width=80, color_system=None, highlight=False)


def test_the_outcome_is_one_line_per_run_on_a_narrow_terminal(tmp_path):
    console = narrow()
    folders = [
        finished(tmp_path, sparsity=0.0, size=12_345_678),
        finished(tmp_path, sparsity=0.9, size=12_345_678),
    ]
    summary.show(folders, console)
    lines = console.file.getvalue().splitlines()
    assert lines[0].rstrip() == "Outcome: network of 12,345,678 weights"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines[4:6]]
    assert rows == [
        ["dense", "98.76%", "1.24%", "12,345,678, 100%", "49,393 kB"],
        ["sdnn 90%", "98.76%", "1.24%", "1,234,568, 10%", "6,173 kB, 8.0x"],
    ]
    assert lines[-1] == f"{folders[-1].path}: everything about it, figures in figures/"


def test_the_demos_table_is_one_line_per_network_on_a_narrow_terminal(tmp_path):
    console = narrow()
    done = {
        sparsity: [
            finished(tmp_path, sparsity=sparsity, size=73_000, seed=seed) for seed in demo.SEEDS
        ]
        for sparsity in demo.SPARSITIES
    }
    console.print(demo._table(done))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 5 + len(done)
    assert all(len(line) <= 80 for line in lines)
    assert "│ 98.76% ± 0.00 │ 98.8 98.8 98.8 │   7,300, 10% │  36 kB, 8.0x │" in lines[-2]
