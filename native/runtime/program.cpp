#include "program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "team.h"

namespace skinny {
namespace {

constexpr size_t most_images = 256;  // at a time: bounds the memory of a run
constexpr size_t few_images = 4;     // up to here the tail runs image by image
constexpr size_t slack = 256;        // floats a kernel may read past the last position

static_assert(slack >= row_slack);

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Whole blocks of images, and single ones for the rest; a rest of more than half a block is a block.
size_t blocks_of(size_t images) {
  size_t lanes = Engine::lanes();
  return images / lanes + (images % lanes * 2 > lanes);
}

size_t singles_of(size_t images) {
  size_t lanes = Engine::lanes(), rest = images % lanes;
  return rest * 2 > lanes ? 0 : rest;
}

// The images of one run of a head: [first, first + count) in n lanes.
struct Item {
  Phase phase;
  size_t first, count, n;
};

void enter(const Program& program, const Images& x, const Item& item, const Place& place) {
  const View& view = program.in;
  clear_margins(view, place, share(view.channels, place.rank, place.size),
                share(view.channels, place.rank + 1, place.size));
  size_t lines = view.channels * view.height, size = view.size(), n = item.n;
  for (size_t line = share(lines, place.rank, place.size);
       line < share(lines, place.rank + 1, place.size); ++line) {
    size_t channel = line / view.height, row = line % view.height;
    size_t source = item.first * size + line * view.width;
    float* to = place.at(view.at(channel, row));
    if (item.count < n) std::memset(to, 0, view.width * n * sizeof(float));
    for (size_t c = 0; c < view.width; ++c, to += n, ++source)
      for (size_t i = 0; i < item.count; ++i)
        to[i] = x.floats ? x.floats[source + i * size]
                         : static_cast<float>(x.bytes[source + i * size]) * x.scale[channel] +
                               x.shift[channel];
  }
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run_steps(const Program& program, const Place& place, Meeting& meeting, double* seconds) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    double start = seconds ? now() : 0;
    program.steps[i]->run(place);
    meeting.wait();
    if (seconds && place.rank == 0) seconds[i] += now() - start;
  }
}

}  // namespace

struct Engine::Memory {
  explicit Memory(size_t floats)
      : size(floats),
        data(static_cast<float*>(std::aligned_alloc(64, round_up(floats * sizeof(float), 64)))) {
    if (!data) throw std::bad_alloc();
    std::memset(data, 0, floats * sizeof(float));
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  const size_t size;
  float* const data;
};

Engine::Engine() = default;
Engine::~Engine() = default;

size_t Program::scratch(size_t n) const {
  size_t most = 0;
  for (const auto& step : steps) most = std::max(most, step->scratch(n));
  return most;
}

size_t Engine::lanes() { return static_cast<size_t>(SKINNY_CHOOSE(tile).lanes); }

size_t Engine::singles(size_t images) {
  return images / most_images * singles_of(most_images) + singles_of(images % most_images);
}

std::unique_ptr<Engine::Memory> Engine::borrow(size_t floats) const {
  std::unique_ptr<Memory> found;
  {
    std::lock_guard lock(mutex_);
    auto fits = std::find_if(idle_.begin(), idle_.end(),
                             [&](const auto& memory) { return memory->size >= floats; });
    if (fits != idle_.end()) {
      found = std::move(*fits);
      idle_.erase(fits);
    } else {
      idle_.clear();  // outgrown
    }
  }
  return found ? std::move(found) : std::make_unique<Memory>(floats);
}

void Engine::give_back(std::unique_ptr<Memory> memory) const {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(memory));
}

void Engine::run(const Images& x, size_t images, float* y, size_t threads,
                 std::vector<double>* seconds) const {
  size_t outputs = program[tail].out.size(), inputs = x.size;
  if (seconds)
    for (size_t p = 0; p < phases; ++p) seconds[p].resize(program[p].steps.size());
  for (size_t first = 0; first < images; first += most_images) {
    Images part = x;
    if (part.floats) part.floats += first * inputs;
    if (part.bytes) part.bytes += first * inputs;
    run_part(part, std::min(most_images, images - first), y + first * outputs, threads, seconds);
  }
}

void Engine::run_part(const Images& x, size_t images, float* y, size_t threads,
                      std::vector<double>* seconds) const {
  std::vector<Item> items;
  size_t blocks = blocks_of(images), done = 0;
  for (size_t i = 0; i < blocks; ++i, done += lanes())
    items.push_back({block, done, std::min(lanes(), images - done), lanes()});
  for (; done < images; ++done) items.push_back({single, done, 1, 1});

  // Where the head's results wait for the tail: the tail's own input, or that of one image after
  // the other.
  const Program& end = program[tail];
  size_t features = end.in.size();
  size_t tail_n = images <= few_images ? 1 : round_up(images, lanes());
  size_t tail_runs = tail_n == 1 ? images : 1;
  size_t tail_size = round_up(end.positions * tail_n + slack, 16);

  size_t arena = 0, scratch = std::max(end.scratch(tail_n), size_t{16});
  for (const Item& item : items) {
    arena = std::max(arena, round_up(program[item.phase].positions * item.n + slack, 16));
    scratch = std::max(scratch, program[item.phase].scratch(item.n));
  }
  scratch = round_up(scratch, 16);
  size_t each = arena + scratch;
  auto memory = borrow(threads * each + tail_runs * tail_size);
  float* tails = memory->data + threads * each;

  auto head = [&](const Item& item, const Place& place, Meeting& meeting, bool timed) {
    const Program& start = program[item.phase];
    enter(start, x, item, place);
    meeting.wait();
    run_steps(start, place, meeting, timed ? seconds[item.phase].data() : nullptr);
    for (size_t f = share(features, place.rank, place.size);
         f < share(features, place.rank + 1, place.size); ++f)
      for (size_t i = 0; i < item.count; ++i) {
        size_t image = item.first + i;
        float* to = tail_n == 1 ? tails + image * tail_size + end.in.offset + f
                                : tails + (end.in.offset + f) * tail_n + image;
        *to = place.at(start.out.offset + f)[i];
      }
    meeting.wait();
  };

  with_team(threads, [&](const Member& me) {
    Meeting alone(1);
    float* own = memory->data + me.rank * each;
    bool timed = seconds && me.rank == 0;
    // As many items as divide evenly are done by one thread each, the rest by all together.
    size_t evenly = items.size() / me.size * me.size;
    for (size_t i = me.rank; i < evenly; i += me.size)
      head(items[i], {own, items[i].n, own + arena, 0, 1}, alone, timed);
    me.meeting.wait();
    for (size_t i = evenly; i < items.size(); ++i)
      head(items[i], {memory->data, items[i].n, own + arena, me.rank, me.size}, me.meeting, timed);
    for (size_t run = 0; run < tail_runs; ++run) {
      Place place{tails + run * tail_size, tail_n, own + arena, me.rank, me.size};
      run_steps(end, place, me.meeting, timed ? seconds[tail].data() : nullptr);
      size_t outputs = end.out.size(), count = tail_n == 1 ? 1 : images;
      for (size_t o = share(outputs, me.rank, me.size); o < share(outputs, me.rank + 1, me.size); ++o)
        for (size_t i = 0; i < count; ++i)
          y[(run + i) * outputs + o] = place.at(end.out.offset + o)[i];
    }
  });
  give_back(std::move(memory));
}

}  // namespace skinny
