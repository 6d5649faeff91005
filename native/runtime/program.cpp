#include "program.h"

#include <algorithm>
#include <cstring>

#include "strided.h"
#include "team.h"

namespace skinny {
namespace {

constexpr size_t max_images = 256;   // at a time: bounds the memory of a call
constexpr size_t max_tail_runs = 4;  // up to this many images, the tail runs image by image

static_assert(arena_slack >= row_slack);

// Images that go through the head together: [first, first + count), in n lanes.
struct WorkItem {
  Mode mode;
  size_t first, count, n;
};

// Copies the item's images, of which `from` is the first, into the arena, interleaved.
void load_images(const Program& program, const Images& x, size_t from, const WorkItem& item,
                 const ThreadContext& context) {
  const View& view = program.in;
  zero_padding(view, context, context.partition(view.channels), {0, view.height});
  size_t size = view.size(), n = item.n;
  if (n == 1 && x.floats && view.compact()) {
    auto [begin, end] = context.partition(size);
    std::memcpy(context.at(view.offset + begin), x.floats + from * size + begin,
                (end - begin) * sizeof(float));
    return;
  }
  auto [begin, end] = context.partition(view.channels * view.height);
  for (size_t line = begin; line < end; ++line) {
    size_t channel = line / view.height, row = line % view.height;
    size_t source = from * size + line * view.width;
    float* to = context.at(view.at(channel, row));
    if (item.count < n) std::memset(to, 0, view.width * n * sizeof(float));
    if (x.floats) {
      SKINNY_CHOOSE(strided).transpose(x.floats + source, size, to, n, view.width, item.count);
      continue;
    }
    for (size_t c = 0; c < view.width; ++c, to += n, ++source)
      for (size_t i = 0; i < item.count; ++i)
        to[i] = static_cast<float>(x.bytes[source + i * size]) * x.scale[channel] +
                x.shift[channel];
  }
}

// Copies the item's results from the arena, one image after the other.
void store_results(const Program& program, const WorkItem& item, float* y,
                   const ThreadContext& context) {
  size_t size = program.out.size();
  auto [begin, end] = context.partition(size);
  const float* from = context.at(program.out.offset + begin);
  float* to = y + item.first * size + begin;
  if (item.n == 1)
    std::memcpy(to, from, (end - begin) * sizeof(float));
  else
    SKINNY_CHOOSE(strided).transpose(from, item.n, to, size, item.count, end - begin);
}

// The caller's image `index` of `count`, if a program reads it where it lies, else null. All images fit
// a cache then: a copy fetches from memory faster than kernels do.
const float* image_in_place(const Program& program, const Images& x, size_t index, size_t count) {
  constexpr size_t cached = size_t{1} << 22;  // floats
  size_t size = program.in.size();
  bool in_place = x.floats && count * size <= cached && program.reads_image();
  return in_place ? x.floats + index * size : nullptr;
}

// All steps of a program. each(arena, n, task) does task(context) for every thread. source, target:
// the caller's memory, where the first step reads it and the last one writes it.
template <class Each>
void run_steps(const Program& program, float* arena, size_t n, const Each& each, double* seconds,
               const float* source = nullptr, float* target = nullptr) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    double start = seconds ? now() : 0;
    each(arena, n, [&](ThreadContext context) {
      context.source = i == 0 ? source : nullptr;
      context.target = i + 1 == program.steps.size() ? target : nullptr;
      program.steps[i]->run(context);
    });
    if (seconds) seconds[i] += now() - start;
  }
}

}  // namespace

// How the memory of a chunk of a batch is divided, in floats: the heads' arenas, one scratch buffer
// per thread, the results of a prefix, and the tail's arenas. The head writes its results where the
// tail reads them: into one arena for all images, interleaved, or into one arena per image. Without
// a tail, they are the caller's at once.
struct Engine::Layout {
  size_t arenas, arena = 0, threads, scratch, prefix = 0, tail_n, tail_runs, tail_size;

  Layout(const Engine& engine, size_t images, size_t team) : threads(team) {
    const Program& tail = engine.program(Mode::tail);
    tail_n = images <= max_tail_runs ? 1 : round_up(images, lanes());
    tail_runs = tail_n == 1 ? images : 1;
    tail_size = round_up(tail.positions * tail_n + arena_slack, 16);
    if (!engine.has_tail()) tail_runs = 0;
    scratch = std::max(tail.scratch(tail_n), size_t{16});
    size_t singles = engine.single_count(images), vectors = engine.vector_count(images);
    auto add = [&](const Program& head, size_t n) {
      arena = std::max(arena, round_up(head.positions * n + arena_slack, 16));
      scratch = std::max(scratch, head.scratch(n));
    };
    if (vectors) add(engine.program(Mode::interleaved), lanes());
    if (singles) add(engine.program(Mode::single), 1);
    // Fewer items than threads are all computed by the whole team, in one arena.
    arenas = vectors + singles < threads ? 1 : threads;
    if (vectors && engine.has_prefix()) {
      // The whole team computes such a vector, which has the memory of the images before it.
      const Program& first = engine.program(Mode::prefix);
      size_t whole = arena;
      arena = 0;
      add(first, 1);
      if (singles) add(engine.program(Mode::single), 1);
      arenas = threads;
      arena = std::max(arena, round_up(divide_up(whole, arenas), 16));
      prefix = round_up(lanes() * first.out.size(), 16);
    }
    scratch = round_up(scratch, 16);
  }
  size_t floats() const {
    return arenas * arena + threads * scratch + prefix + tail_runs * tail_size;
  }
};

size_t Program::scratch(size_t n) const {
  size_t most = 0;
  for (const auto& step : steps) most = std::max(most, step->scratch(n));
  return most;
}

size_t Engine::lanes() { return static_cast<size_t>(SKINNY_CHOOSE(tile).lanes); }

bool Engine::runs_vectors() const {
  size_t positions = program(Mode::interleaved).positions;
  return positions && positions <= most_cached / lanes();
}

// Images run in whole vectors; a remainder of at most half a vector runs image by image, a larger
// one as a vector with unused lanes.
size_t Engine::vector_count(size_t images) const {
  return runs_vectors() ? images / lanes() + (images % lanes() * 2 > lanes()) : 0;
}

size_t Engine::single_count(size_t images) const {
  if (!runs_vectors()) return images;
  size_t remainder = images % lanes();
  return remainder * 2 > lanes() ? 0 : remainder;
}

size_t Engine::singles(size_t images) const {
  return images / max_images * single_count(max_images) + single_count(images % max_images);
}

std::vector<size_t> Engine::generate(Mode mode, size_t most) const {
  return generate_code(program(mode).steps, mode == Mode::interleaved ? lanes() : 1, most);
}

size_t Engine::workspace_bytes(size_t images, size_t threads) const {
  size_t floats = 0, rest = images % max_images;
  if (rest) floats = Layout(*this, rest, threads).floats();
  if (images >= max_images)
    floats = std::max(floats, Layout(*this, max_images, threads).floats());
  return floats * sizeof(float);
}

void Engine::run(const Images& x, size_t images, float* y, size_t threads,
                 std::vector<double>* seconds) const {
  size_t outputs = program(Mode::tail).out.size(), inputs = x.size;
  if (seconds)
    for (size_t mode = 0; mode < mode_count; ++mode)
      seconds[mode].resize(programs_[mode].steps.size());
  for (size_t first = 0; first < images; first += max_images) {
    Images chunk = x;
    if (chunk.floats) chunk.floats += first * inputs;
    if (chunk.bytes) chunk.bytes += first * inputs;
    run_chunk(chunk, std::min(max_images, images - first), y + first * outputs, threads, seconds);
  }
}

void Engine::run_chunk(const Images& x, size_t images, float* y, size_t threads,
                       std::vector<double>* seconds) const {
  std::vector<WorkItem> items;
  size_t vectors = vector_count(images), done = 0;
  for (size_t i = 0; i < vectors; ++i, done += lanes())
    items.push_back({Mode::interleaved, done, std::min(lanes(), images - done), lanes()});
  for (; done < images; ++done) items.push_back({Mode::single, done, 1, 1});

  const Program& tail = program(Mode::tail);
  size_t features = tail.in.size();
  Layout layout(*this, images, threads);
  auto workspace = workspaces_.acquire(layout.floats());
  float* scratches = workspace->data + layout.arenas * layout.arena;
  float* between = scratches + threads * layout.scratch;  // results of the prefix
  float* tails = between + layout.prefix;
  size_t tail_n = layout.tail_n, tail_runs = layout.tail_runs, tail_size = layout.tail_size;
  auto times = [&](Mode mode, size_t rank) {
    return seconds && rank == 0 ? seconds[static_cast<size_t>(mode)].data() : nullptr;
  };

  Team team(threads);
  size_t size = team.size();
  // Both do a task in the context of each thread: of those of the team, and of one that is `rank`.
  auto by_team = [&](float* arena, size_t n, const auto& task) {
    team.run(size, [&](size_t rank) {
      task(ThreadContext{arena, n, scratches + rank * layout.scratch, rank, size});
    });
  };
  auto alone = [&](size_t rank) {
    return [&, rank](float* arena, size_t n, const auto& task) {
      task(ThreadContext{arena, n, scratches + rank * layout.scratch, 0, 1});
    };
  };

  auto run_head = [&](const WorkItem& item, const Images& of, size_t from, float* arena,
                      const auto& each, double* timed) {
    const Program& head = program(item.mode);
    const float* source = item.n == 1 ? image_in_place(head, of, from, images) : nullptr;
    bool in_place = item.n == 1 && !has_tail() && head.writes_result();
    if (!source)
      each(arena, item.n,
           [&](const ThreadContext& context) { load_images(head, of, from, item, context); });
    run_steps(head, arena, item.n, each, timed, source,
              in_place ? y + item.first * head.out.size() : nullptr);
    if (in_place) return;
    each(arena, item.n, [&](const ThreadContext& context) {
      if (!has_tail()) return store_results(head, item, y, context);
      auto [begin, end] = context.partition(features);
      if (item.n == 1 && tail_n == 1) {
        std::memcpy(tails + item.first * tail_size + tail.in.offset + begin,
                    context.at(head.out.offset + begin), (end - begin) * sizeof(float));
        return;
      }
      for (size_t f = begin; f < end; ++f)
        for (size_t i = 0; i < item.count; ++i) {
          size_t image = item.first + i;
          float* to = tail_n == 1 ? tails + image * tail_size + tail.in.offset + f
                                  : tails + (tail.in.offset + f) * tail_n + image;
          *to = context.at(head.out.offset + f)[i];
        }
    });
  };

  // As many of the items [first, last) as divide evenly are computed by one thread each, the others
  // by the whole team.
  auto divide = [&](size_t first, size_t last, const auto& run) {
    size_t evenly = layout.arenas == 1 ? first : first + (last - first) / size * size;
    if (evenly > first)
      team.run(size, [&](size_t rank) {
        for (size_t i = first + rank; i < evenly; i += size)
          run(i, workspace->data + rank * layout.arena, alone(rank), rank);
      });
    for (size_t i = evenly; i < last; ++i) run(i, workspace->data, by_team, size_t{0});
  };
  size_t begun = 0;
  if (layout.prefix)
    for (; begun < vectors; ++begun) {
      const Program& prefix = program(Mode::prefix);
      const WorkItem& item = items[begun];
      size_t each_size = prefix.out.size();
      divide(item.first, item.first + item.count,
             [&](size_t i, float* arena, const auto& each, size_t rank) {
               float* to = between + (i - item.first) * each_size;
               const float* source = image_in_place(prefix, x, i, images);
               if (!source)
                 each(arena, 1, [&](const ThreadContext& context) {
                   load_images(prefix, x, i, {Mode::prefix, i, 1, 1}, context);
                 });
               run_steps(prefix, arena, 1, each, times(Mode::prefix, rank), source);
               each(arena, 1, [&](const ThreadContext& context) {
                 auto [begin, end] = context.partition(each_size);
                 std::memcpy(to + begin, context.at(prefix.out.offset + begin),
                             (end - begin) * sizeof(float));
               });
             });
      Images made;
      made.floats = between;
      run_head(item, made, 0, workspace->data, by_team, times(item.mode, 0));
    }
  divide(begun, items.size(), [&](size_t i, float* arena, const auto& each, size_t rank) {
    run_head(items[i], x, items[i].first, arena, each, times(items[i].mode, rank));
  });
  for (size_t image = 0; image < tail_runs; ++image) {
    float* arena = tails + image * tail_size;
    run_steps(tail, arena, tail_n, by_team, times(Mode::tail, 0));
    size_t outputs = tail.out.size(), count = tail_n == 1 ? 1 : images;
    by_team(arena, tail_n, [&](const ThreadContext& context) {
      auto [begin, end] = context.partition(outputs);
      for (size_t o = begin; o < end; ++o)
        for (size_t i = 0; i < count; ++i)
          y[(image + i) * outputs + o] = context.at(tail.out.offset + o)[i];
    });
  }
  workspaces_.recycle(std::move(workspace));
}

}  // namespace skinny
