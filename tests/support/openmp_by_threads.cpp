// What GCC calls of OpenMP's run-time system, by std::thread: ThreadSanitizer then sees what threads wait
// for. `make sanitize-threads` links it in the place of libgomp, which is not built with the sanitizer.
// Threads take the parts of a loop by an atomic counter that is relaxed, so that parts are in no order, as
// with OpenMP.
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Loop {
    std::atomic<long> next;
    long end, step, chunk;
};

struct Team {
    explicit Team(int n) : size(n) {}
    const int size;
    std::mutex mutex;
    std::condition_variable opened;
    int arrived = 0, turn = 0;
    std::list<Loop> loops;
};

struct Member {
    Team* team = nullptr;
    int number = 0;
    std::list<Loop>::iterator loop;
    bool in_loop = false;
};

thread_local Member self;
std::mutex critical, named, atomics;

bool take(Loop& loop, long* begin, long* end) {
    const long stride = loop.step * loop.chunk;
    const long first = loop.next.fetch_add(stride, std::memory_order_relaxed);
    if (loop.step > 0 ? first >= loop.end : first <= loop.end) return false;
    const long last = first + stride;
    *begin = first;
    *end = (loop.step > 0 ? last > loop.end : last < loop.end) ? loop.end : last;
    return true;
}

void work(Team& team, int number, void (*body)(void*), void* data) {
    const Member before = self;
    self = Member{&team, number, {}, false};
    body(data);
    self = before;
}

}  // namespace

extern "C" {

int omp_pause_resource_all(int) { return 0; }  // threads end with their region

void GOMP_parallel(void (*body)(void*), void* data, unsigned n_threads, unsigned) {
    Team team(n_threads ? static_cast<int>(n_threads) : 1);
    std::vector<std::thread> threads;
    for (int number = 1; number < team.size; ++number)
        threads.emplace_back([&team, number, body, data] { work(team, number, body, data); });
    work(team, 0, body, data);
    for (auto& thread : threads) thread.join();
}

bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk, long* begin,
                                          long* stop) {
    Team& team = *self.team;
    {
        // the loops of a region follow each other, and threads come to them at their own times
        const std::lock_guard<std::mutex> lock(team.mutex);
        auto next = self.in_loop ? std::next(self.loop) : team.loops.begin();
        if (next == team.loops.end()) {
            team.loops.emplace_back();
            next = std::prev(team.loops.end());
            next->next.store(start, std::memory_order_relaxed);
            next->end = end;
            next->step = step;
            next->chunk = chunk;
        }
        self.loop = next;
        self.in_loop = true;
    }
    return take(*self.loop, begin, stop);
}

bool GOMP_loop_nonmonotonic_dynamic_next(long* begin, long* stop) { return take(*self.loop, begin, stop); }

void GOMP_loop_end_nowait() {}

void GOMP_barrier() {
    if (!self.team) return;
    Team& team = *self.team;
    std::unique_lock<std::mutex> lock(team.mutex);
    const int turn = team.turn;
    if (++team.arrived == team.size) {
        team.arrived = 0;
        ++team.turn;
        team.opened.notify_all();
    } else {
        team.opened.wait(lock, [&] { return team.turn != turn; });
    }
}

void GOMP_critical_start() { critical.lock(); }
void GOMP_critical_end() { critical.unlock(); }
void GOMP_critical_name_start(void**) { named.lock(); }
void GOMP_critical_name_end(void**) { named.unlock(); }
void GOMP_atomic_start() { atomics.lock(); }
void GOMP_atomic_end() { atomics.unlock(); }
int omp_get_num_threads() { return self.team ? self.team->size : 1; }
int omp_get_thread_num() { return self.number; }
}
