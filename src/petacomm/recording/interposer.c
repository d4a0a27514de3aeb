/* Library that is loaded before a program of MPI and counts what it sends, by the profiling interface (PMPI).
 *
 * Each wrapper counts and then calls MPI. What is sent by a call whose partners the caller names (messages,
 * one-sided calls, collectives with counts for each rank, exchanges with neighbours) is counted by partner
 * and size class; all other collectives are counted by their exact size, and petacomm makes messages of
 * them later. MPI_Finalize writes a file a rank into the folder that PETACOMM_RECORD names.
 *
 * Compiled by the MPI's own compiler: handles are integers in MPICH and pointers in Open MPI. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The functions of MPI are looked up when they are first called: the library is not linked to an MPI, as the
 * program brings its own, some, such as mpi4py, only while they run. */
static void* find(const char* name, const void* caller) {
    static void* mpi;
    Dl_info found;
    void* function = mpi ? dlsym(mpi, name) : NULL;
    if (!function) function = dlsym(RTLD_NEXT, name);
    if (!function && dladdr(caller, &found) && found.dli_fname) { /* MPI is in a scope of the caller alone */
        mpi = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (mpi) function = dlsym(mpi, name);
    }
    if (!function) {
        fprintf(stderr, "petacomm record: this MPI has no %s: give --mpicc of the program's MPI\n", name);
        _exit(2);
    }
    return function;
}

#define FOUND(name)                                                                                       \
    ({                                                                                                    \
        static __typeof__(&PMPI_##name) function;                                                         \
        if (!function) function = (__typeof__(function))find("PMPI_" #name, __builtin_return_address(0)); \
        function;                                                                                         \
    })
#define PMPI(name) FOUND(name)

#ifdef OPEN_MPI
/* Variables, of which a program that is linked to them has the copy that counts: asked for first. */
static void* variable(const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    return found ? found : find(name, NULL);
}
#define WORLD ((MPI_Comm)variable("ompi_mpi_comm_world"))
#define NO_COMM ((MPI_Comm)variable("ompi_mpi_comm_null"))
#define BYTE ((MPI_Datatype)variable("ompi_mpi_byte"))
#define NO_OP ((MPI_Op)variable("ompi_mpi_op_no_op"))
#else
#define WORLD MPI_COMM_WORLD
#define NO_COMM MPI_COMM_NULL
#define BYTE MPI_BYTE
#define NO_OP MPI_NO_OP
#endif

#define CALLS(do_)                                                                                       \
    do_(send) do_(put) do_(get) do_(accumulate) do_(barrier) do_(bcast) do_(reduce) do_(allreduce)       \
        do_(gather) do_(gatherv) do_(scatter) do_(scatterv) do_(allgather) do_(allgatherv) do_(alltoall) \
            do_(alltoallv) do_(alltoallw) do_(reduce_scatter) do_(reduce_scatter_block) do_(scan)        \
                do_(exscan) do_(neighbor_allgather) do_(neighbor_alltoall)

#define CALL_CONSTANT(name) CALL_##name,
#define CALL_NAME(name) #name,
enum { CALLS(CALL_CONSTANT) };
static const char* const call_names[] = {CALLS(CALL_NAME)};

static int on, threaded, phase;
static int world_rank, world_size;
static MPI_Group world_group;
static uint64_t job;                             /* a number that the files of its ranks have in common */
static uint64_t outside_messages, outside_bytes; /* to processes that are not in MPI_COMM_WORLD */
static uint64_t spawned;

/* --- memory, and the lock of programs whose threads all call MPI */

static void* checked(void* memory) {
    if (!memory) {
        fprintf(stderr, "petacomm record: no memory for the counters of rank %d\n", world_rank);
        _exit(5);
    }
    return memory;
}

static int locked;

static void lock(void) { while (threaded && __atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE)); }

static void unlock(void) {
    if (threaded) __atomic_store_n(&locked, 0, __ATOMIC_RELEASE);
}

#define COUNTED(when, statement) \
    if (when) {                  \
        lock();                  \
        statement;               \
        unlock();                \
    }

/* --- calls from Fortran: of MPI's libraries for it some call MPI_Send, as programs in C do, and some
 * PMPI_Send */

static struct {
    uintptr_t begin, end;
} fortran[8];
static int n_fortran;

static int find_fortran(struct dl_phdr_info* info, size_t size, void* data) {
    static const char* const names[] = {"libmpichf", "libmpifort", "libmpi_mpifh", "libmpi_usempi"};
    const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size, (void)data;
    for (int i = 0; name && i < 4; i++) {
        if (strncmp(name + 1, names[i], strlen(names[i]))) continue;
        for (int j = 0; j < info->dlpi_phnum && n_fortran < 8; j++) {
            const ElfW(Phdr)* part = &info->dlpi_phdr[j];
            if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
            fortran[n_fortran].begin = info->dlpi_addr + part->p_vaddr;
            fortran[n_fortran++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        }
    }
    return 0;
}

static int is_fortran(const void* caller) {
    int found = 0;
    for (int i = 0; i < n_fortran; i++)
        found |= (uintptr_t)caller >= fortran[i].begin && (uintptr_t)caller < fortran[i].end;
    return found;
}

#define FROM_FORTRAN (on && is_fortran(__builtin_return_address(0)))

/* --- counters: a hash table with open addressing */

/* Whole words, of which hashes are made without waiting for parts of them to be written. */
typedef struct {
    uint64_t call;    /* with phase << 32, and whether petacomm makes messages of it << 31 */
    uint64_t partner; /* rank of MPI_COMM_WORLD, or the root in its communicator, with group << 32 */
    uint64_t size;    /* bits of the size of a message; of a collective, bytes */
    uint64_t item;    /* of a collective that combines, bytes of an element */
} Key;

static Key make_key(int call, int collective, int group, int partner, uint64_t size, int item) {
    return (Key){(uint64_t)call | (uint64_t)collective << 31, (uint32_t)partner | (uint64_t)group << 32, size,
                 (uint64_t)item};
}

typedef struct {
    Key key;
    uint64_t messages, bytes;
} Counter;

static Counter *counters, *last_added;
static size_t n_counters, n_slots;

/* Counters of messages by what programs say of them: most send the same again and again. */
typedef struct {
    Counter* counter; /* none where nothing is known, or no longer */
    uint64_t bytes;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Count count;
    int partner;
} Recent;

static Recent recent[64];

static void forget_recent(void) { memset(recent, 0, sizeof recent); }

static int equal(const Key* a, const Key* b) {
    return a->call == b->call && a->partner == b->partner && a->size == b->size && a->item == b->item;
}

static size_t slot_of(const Key* key) {
    uint64_t mixed = key->call * UINT64_C(0x9e3779b97f4a7c15) + key->partner * UINT64_C(0xc2b2ae3d27d4eb4f) +
                     key->size * UINT64_C(0x165667b19e3779f9) + key->item * UINT64_C(0x27d4eb2f165667c5);
    size_t slot = (mixed ^ mixed >> 32) & (n_slots - 1);
    while (counters[slot].messages && !equal(&counters[slot].key, key)) slot = (slot + 1) & (n_slots - 1);
    return slot;
}

static void grow_counters(void) {
    Counter* old = counters;
    size_t n_old = n_slots;
    n_slots = n_old ? 2 * n_old : 256;
    forget_recent();
    counters = checked(calloc(n_slots, sizeof *counters));
    for (size_t i = 0; i < n_old; i++)
        if (old[i].messages) counters[slot_of(&old[i].key)] = old[i];
    free(old);
}

static void add(Key key, uint64_t messages, uint64_t bytes) {
    if (2 * n_counters >= n_slots) grow_counters();
    key.call |= (uint64_t)(uint32_t)phase << 32;
    Counter* counter = &counters[slot_of(&key)];
    if (!counter->messages) {
        counter->key = key;
        n_counters++;
    }
    counter->messages += messages;
    counter->bytes += bytes;
    last_added = counter;
}

/* --- persistent requests: what a start of each sends */

typedef struct Plan {
    struct Plan* next;
    MPI_Request request;
    size_t n, room;
    Counter* notes;
} Plan;

static Plan *plans[1024], *made;

static void note(Key key, uint64_t messages, uint64_t bytes) {
    if (!made) {
        add(key, messages, bytes);
        return;
    }
    if (made->n == made->room) {
        made->room = 2 * made->room + 1;
        made->notes = checked(realloc(made->notes, made->room * sizeof *made->notes));
    }
    made->notes[made->n++] = (Counter){key, messages, bytes};
}

static Plan** plan_place(MPI_Request request) {
    Plan** place = &plans[((uintptr_t)request ^ (uintptr_t)request >> 10) & 1023];
    while (*place && (*place)->request != request) place = &(*place)->next;
    return place;
}

static Plan* make_plan(void) { return made = checked(calloc(1, sizeof(Plan))); }

static void keep_plan(Plan* plan, MPI_Request request) {
    lock();
    Plan** place = plan_place(request);
    plan->request = request;
    plan->next = *place ? (*place)->next : NULL; /* a request of the same handle was freed unseen */
    *place = plan;
    unlock();
}

static void start_plan(MPI_Request request) {
    Plan* plan = *plan_place(request);
    for (size_t i = 0; plan && i < plan->n; i++)
        add(plan->notes[i].key, plan->notes[i].messages, plan->notes[i].bytes);
}

static void free_plan(MPI_Request request) {
    Plan **place = plan_place(request), *plan = *place;
    if (!plan) return;
    *place = plan->next;
    free(plan->notes);
    free(plan);
}

/* Count what a statement notes whenever the request is started that a call makes. */
#define PLANNED(when, statement, call)                  \
    if (!(when)) return call;                           \
    lock();                                             \
    Plan* plan = make_plan();                           \
    statement;                                          \
    made = NULL;                                        \
    unlock();                                           \
    int code = call;                                    \
    if (code == MPI_SUCCESS) keep_plan(plan, *request); \
    return code;

/* --- groups of ranks: those of communicators and of windows */

typedef struct {
    int size, rank, remote_size, inter, is_world;
    int *ranks, *remote; /* ranks of MPI_COMM_WORLD */
    int next;            /* group in its list, or -1 */
    int named_by;        /* number of the communicator that has given the name */
    uint64_t identity;
    char name[MPI_MAX_OBJECT_NAME];
} Group;

typedef struct Handle {
    struct Handle* next;
    uintptr_t value;
    int group, number;
    int n_neighbours, *neighbours; /* -1 if not yet asked for */
} Handle;

static Group* groups;
static int n_groups, groups_room, n_handles;
static int first_group[256]; /* of those whose identities end alike, plus one */
static Handle *communicators[256], *windows[256];

static Handle** handle_place(Handle** table, uintptr_t value) {
    Handle** place = &table[(value ^ value >> 4 ^ value >> 12) & 255];
    while (*place && (*place)->value != value) place = &(*place)->next;
    return place;
}

static int* world_ranks(MPI_Group group, int size) {
    int *ranks = checked(malloc((size + 1) * sizeof(int))), *own = checked(malloc((size + 1) * sizeof(int)));
    for (int i = 0; i < size; i++) own[i] = i;
    PMPI(Group_translate_ranks)(group, size, own, world_group, ranks);
    free(own);
    return ranks;
}

static uint64_t hashed(uint64_t hash, const int* ranks, int size) {
    hash = (hash ^ (uint64_t)size) * UINT64_C(0x100000001b3);
    for (int i = 0; i < size; i++) {
        hash = (hash ^ (uint64_t)(uint32_t)ranks[i]) * UINT64_C(0x100000001b3);
        hash ^= hash >> 32;
    }
    return hash;
}

static Group new_group(MPI_Group of) {
    Group group = {0};
    PMPI(Group_size)(of, &group.size);
    PMPI(Group_rank)(of, &group.rank);
    group.ranks = world_ranks(of, group.size);
    group.identity = hashed(UINT64_C(0xcbf29ce484222325), group.ranks, group.size);
    group.is_world = group.size == world_size;
    for (int i = 0; i < group.size; i++) group.is_world &= group.ranks[i] == i;
    return group;
}

static int same_ranks(const int* a, const int* b, int size) {
    return !size || !memcmp(a, b, size * sizeof(int));
}

static int same_group(const Group* a, const Group* b) {
    return a->identity == b->identity && a->inter == b->inter && a->size == b->size &&
           a->remote_size == b->remote_size && same_ranks(a->ranks, b->ranks, a->size) &&
           same_ranks(a->remote, b->remote, a->remote_size);
}

/* Keep a group, unless there is one of the same ranks: programs may make communicators for ever. */
static int keep_group(Group* group) {
    int* first = &first_group[group->identity & 255];
    for (int i = *first - 1; i >= 0; i = groups[i].next) {
        if (!same_group(&groups[i], group)) continue;
        free(group->ranks);
        free(group->remote);
        return i;
    }
    if (n_groups == groups_room) {
        groups_room = 2 * groups_room + 8;
        groups = checked(realloc(groups, groups_room * sizeof *groups));
    }
    group->next = *first - 1;
    groups[n_groups] = *group;
    *first = ++n_groups;
    return n_groups - 1;
}

static Handle* keep_handle(Handle** place, uintptr_t value, Group* group) {
    Handle* handle = *place = checked(calloc(1, sizeof *handle));
    handle->value = value;
    handle->group = keep_group(group);
    handle->number = n_handles++;
    handle->n_neighbours = -1;
    return handle;
}

static Handle* last_used; /* communicator */

static Group group_of_new(MPI_Comm comm) {
    MPI_Group own;
    PMPI(Comm_group)(comm, &own);
    Group group = new_group(own);
    PMPI(Group_free)(&own);
    PMPI(Comm_test_inter)(comm, &group.inter);
    if (group.inter) {
        PMPI(Comm_remote_group)(comm, &own);
        PMPI(Comm_remote_size)(comm, &group.remote_size);
        group.remote = world_ranks(own, group.remote_size);
        group.identity = hashed(group.identity, group.remote, group.remote_size);
        group.is_world = 0;
        PMPI(Group_free)(&own);
    }
    return group;
}

static Handle* handle_of(MPI_Comm comm) {
    if (last_used && last_used->value == (uintptr_t)comm) return last_used;
    Handle** place = handle_place(communicators, (uintptr_t)comm);
    if (!*place) {
        Group group = group_of_new(comm);
        keep_handle(place, (uintptr_t)comm, &group);
    }
    return last_used = *place;
}

static int group_of(MPI_Comm comm) { return handle_of(comm)->group; }

static Group* group_at(MPI_Comm comm) {
    int index = group_of(comm); /* which may move all groups */
    return &groups[index];
}

static int group_of_window(MPI_Win window) {
    Handle** place = handle_place(windows, (uintptr_t)window);
    if (*place) return (*place)->group;
    MPI_Group own;
    PMPI(Win_get_group)(window, &own);
    Group group = new_group(own);
    PMPI(Group_free)(&own);
    return keep_handle(place, (uintptr_t)window, &group)->group;
}

static void forget(Handle** table, uintptr_t value) {
    Handle **place = handle_place(table, value), *handle = *place;
    if (!handle) return;
    if (handle == last_used) last_used = NULL;
    *place = handle->next;
    free(handle->neighbours);
    free(handle);
}

/* Ask a communicator for its name, which programs may set at any time, as late as can be. Of several of the
 * same ranks the first one that has a name gives it. */
static void ask_name(MPI_Comm comm) {
    Handle* handle = *handle_place(communicators, (uintptr_t)comm);
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length;
    if (!handle) return;
    Group* group = &groups[handle->group];
    PMPI(Comm_get_name)(comm, name, &length);
    if (!*name || (*group->name && group->named_by < handle->number)) return;
    strcpy(group->name, name);
    group->named_by = handle->number;
}

static void find_neighbours(Handle* handle, MPI_Comm comm) {
    int kind, n = 0, n_in = 0, weighted;
    PMPI(Topo_test)(comm, &kind);
    if (kind == MPI_CART) {
        PMPI(Cartdim_get)(comm, &n);
        handle->neighbours = checked(malloc((2 * n + 1) * sizeof(int)));
        for (int d = 0; d < n; d++)
            PMPI(Cart_shift)(comm, d, 1, &handle->neighbours[2 * d], &handle->neighbours[2 * d + 1]);
        n *= 2;
    } else if (kind == MPI_GRAPH) {
        PMPI(Graph_neighbors_count)(comm, groups[handle->group].rank, &n);
        handle->neighbours = checked(malloc((n + 1) * sizeof(int)));
        PMPI(Graph_neighbors)(comm, groups[handle->group].rank, n, handle->neighbours);
    } else if (kind == MPI_DIST_GRAPH) {
        PMPI(Dist_graph_neighbors_count)(comm, &n_in, &n, &weighted);
        handle->neighbours = checked(malloc((n + 1) * sizeof(int)));
        int* other = checked(malloc((2 * n_in + n + 1) * sizeof(int)));
        PMPI(Dist_graph_neighbors)(comm, n_in, other, other + n_in, n, handle->neighbours, other + 2 * n_in);
        free(other);
    }
    handle->n_neighbours = n;
}

/* --- what wrappers note */

/* Sizes of the datatypes that were used last; a handle may be that of another type once one is freed. */
static struct {
    uintptr_t type;
    uint64_t size;
} sizes[64];

static size_t size_place(MPI_Datatype type) { return ((uintptr_t)type ^ (uintptr_t)type >> 7) & 63; }

static uint64_t bytes_of(MPI_Count count, MPI_Datatype type) {
    MPI_Count size = 0;
    size_t place = size_place(type);
    if (count <= 0) return 0;
    if (sizes[place].type != (uintptr_t)type) {
        PMPI(Type_size_x)(type, &size);
        sizes[place].type = (uintptr_t)type;
        sizes[place].size = size > 0 ? (uint64_t)size : 0;
    }
    return (uint64_t)count * sizes[place].size;
}

static uint64_t bits_of(uint64_t bytes) { return bytes ? 64 - __builtin_clzll(bytes) : 0; }

static void note_partner(int call, int group_index, int partner, uint64_t messages, uint64_t bytes) {
    const Group* group = &groups[group_index];
    if (partner < 0 || partner >= (group->inter ? group->remote_size : group->size))
        return; /* MPI_PROC_NULL */
    int rank = (group->inter ? group->remote : group->ranks)[partner];
    if (rank < 0) {
        outside_messages += messages;
        outside_bytes += bytes;
    } else {
        uint64_t each = messages == 1 ? bytes : bytes / messages;
        note(make_key(call, 0, group_index, rank, bits_of(each), 0), messages, bytes);
    }
}

static void note_send(MPI_Comm comm, int partner, uint64_t bytes) {
    if (partner != MPI_PROC_NULL) note_partner(CALL_send, group_of(comm), partner, 1, bytes);
}

static void note_message(MPI_Comm comm, int partner, MPI_Count count, MPI_Datatype type) {
    Recent* last = &recent[((unsigned)partner * 31 + (unsigned)count) & 63];
    if (last->counter && last->partner == partner && last->count == count && last->comm == comm &&
        last->type == type) {
        last->counter->messages++;
        last->counter->bytes += last->bytes;
        return;
    }
    uint64_t bytes = bytes_of(count, type);
    last_added = NULL;
    note_send(comm, partner, bytes);
    *last = (Recent){last_added, bytes, comm, type, count, partner};
}

static void note_window(int call, MPI_Win window, int partner, uint64_t bytes) {
    if (partner != MPI_PROC_NULL) note_partner(call, group_of_window(window), partner, 1, bytes);
}

static int note_collective(int call, MPI_Comm comm, int root, uint64_t bytes, int item) {
    note(make_key(call, 1, group_of(comm), root, bytes, item), 1, bytes);
    return 1;
}

static int is_no_op(MPI_Op op) {
    static MPI_Op none;
    if (!none) none = NO_OP;
    return op == none;
}

static int is_root(MPI_Comm comm, int root) {
    const Group* group = group_at(comm);
    return group->inter ? root == MPI_ROOT : root == group->rank;
}

/* Number of ranks that a collective sends to: the others, or those of the other side. */
static int n_partners(MPI_Comm comm) {
    const Group* group = group_at(comm);
    return group->inter ? group->remote_size : group->size;
}

static void note_block(int call, MPI_Comm comm, int partner, uint64_t bytes) {
    int index = group_of(comm);
    if (bytes && (groups[index].inter || partner != groups[index].rank))
        note_partner(call, index, partner, 1, bytes);
}

/* Note what a rank sends round a ring to the next one: all blocks but that of the next one. */
static void note_ring(MPI_Comm comm, const void* counts, size_t width, MPI_Datatype type) {
    int index = group_of(comm), n = n_partners(comm), next = (groups[index].rank + 1) % (n ? n : 1);
    uint64_t sent = 0, blocks = 0;
    if (groups[index].inter) return;
    for (int i = 0; i < n; i++) {
        MPI_Count count = width == sizeof(int) ? ((const int*)counts)[i] : ((const MPI_Count*)counts)[i];
        if (i == next || !count) continue;
        blocks++;
        sent += bytes_of(count, type);
    }
    if (n > 1 && sent) note_partner(CALL_allgatherv, index, next, blocks, sent);
}

static int n_neighbours(MPI_Comm comm) {
    Handle* handle = handle_of(comm);
    if (handle->n_neighbours < 0) find_neighbours(handle, comm);
    return handle->n_neighbours;
}

static void note_neighbour(int call, MPI_Comm comm, int neighbour, uint64_t bytes) {
    const Handle* handle = handle_of(comm);
    note_partner(call, handle->group, handle->neighbours[neighbour], 1, bytes);
}

/* --- wrappers of calls that have counts */

#define COUNT int
#define DISPLACEMENT int
#define F(name) name
#include "interposer_calls.h"
#undef COUNT
#undef DISPLACEMENT
#undef F
#if MPI_VERSION >= 4
#define LARGE_COUNTS
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define F(name) name##_c
#include "interposer_calls.h"
#endif

/* --- wrappers of calls without counts */

#undef F
#define F(name) name
#define NOTE_BARRIER note_collective(CALL_barrier, comm, 0, 0, 1)

SENDING(Barrier, (MPI_Comm comm), (comm), NOTE_BARRIER)
NONBLOCKING(Ibarrier, (MPI_Comm comm), (comm), NOTE_BARRIER)
#ifdef HAVE_PERSISTENT
PERSISTENT(Barrier_init, (MPI_Comm comm), (comm), NOTE_BARRIER)
PERSISTENT(Psend_init,
           (const void* data, int partitions, MPI_Count count, MPI_Datatype type, int partner, int tag,
            MPI_Comm comm),
           (data, partitions, count, type, partner, tag, comm),
           note_send(comm, partner, (uint64_t)partitions* bytes_of(count, type)))
#endif

#define ATOMIC_NOTE(n)                                                             \
    if (n) note_window(CALL_accumulate, window, partner, (n) * bytes_of(1, type)); \
    note_window(CALL_get, window, partner, bytes_of(1, type))

SENDING(Fetch_and_op,
        (const void* data, void* result, MPI_Datatype type, int partner, MPI_Aint at, MPI_Op op,
         MPI_Win window),
        (data, result, type, partner, at, op, window), ATOMIC_NOTE(is_no_op(op) ? 0 : 1))
SENDING(Compare_and_swap,
        (const void* data, const void* compared, void* result, MPI_Datatype type, int partner, MPI_Aint at,
         MPI_Win window),
        (data, compared, result, type, partner, at, window), ATOMIC_NOTE(2))

SENDING(Start, (MPI_Request * request), (request), start_plan(*request))
SENDING(Startall, (int count, MPI_Request requests[]), (count, requests),
        for (int i = 0; i < count; i++) start_plan(requests[i]))
SENDING(Request_free, (MPI_Request * request), (request), free_plan(*request))
SENDING(Type_free, (MPI_Datatype * type), (type), sizes[size_place(*type)].type = 0; forget_recent())
SENDING(Comm_free, (MPI_Comm * comm), (comm), ask_name(*comm); forget(communicators, (uintptr_t)*comm);
        forget_recent())
SENDING(Comm_disconnect, (MPI_Comm * comm), (comm), ask_name(*comm); forget(communicators, (uintptr_t)*comm);
        forget_recent())
SENDING(Comm_spawn,
        (const char* program, char* words[], int n, MPI_Info info, int root, MPI_Comm comm,
         MPI_Comm* children, int codes[]),
        (program, words, n, info, root, comm, children, codes), if (is_root(comm, root)) spawned += n)
SENDING(Comm_spawn_multiple,
        (int n, char* programs[], char** words[], const int numbers[], const MPI_Info infos[], int root,
         MPI_Comm comm, MPI_Comm* children, int codes[]),
        (n, programs, words, numbers, infos, root, comm, children, codes),
        for (int i = 0; is_root(comm, root) && i < n; i++) spawned += numbers[i])
SENDING(Win_free, (MPI_Win * window), (window), forget(windows, (uintptr_t)*window))

/* The level is the number of the phase; what may follow it is not read, as no one says what it is. Whoever
 * calls: Open MPI's library for Fortran jumps here, so that nothing tells that it did. */
#define BEGIN_PHASE                             \
    COUNTED(on, phase = level; forget_recent()) \
    return PMPI(Pcontrol)(level);

int MPI_Pcontrol(const int level, ...) { BEGIN_PHASE }

int PMPI_Pcontrol(const int level, ...) { BEGIN_PHASE }

/* --- begin and end */

static char library[MPI_MAX_LIBRARY_VERSION_STRING];

static void refuse(const char* what) {
    fprintf(stderr, "petacomm record: %s\n", what);
    fflush(stderr);
    _exit(2);
}

/* End a program of another MPI than the one that this was compiled for: its handles are something else. */
static void check_library(void) {
    Dl_info found;
    int length, open_mpi = 0;
    PMPI(Get_library_version)(library, &length);
    library[strcspn(library, "\n")] = 0;
#ifdef OPEN_MPI
    open_mpi = 1;
#endif
    if (open_mpi != (strstr(library, "Open MPI") != NULL))
        refuse("the program runs with another MPI than that of the compiler of the launcher: give --mpicc");
    if (dladdr((void*)PMPI(Get_library_version), &found) && strstr(found.dli_fname, "libmpi_abi"))
        refuse("the program is linked to libmpi_abi, whose calls cannot be counted: link it to libmpi");
}

/* Take a number of the job from rank 0. A rank that this library is not loaded into never answers. */
static void agree_on_job(void) {
    struct timespec now;
    MPI_Request request;
    int done = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t last = now.tv_sec + 120;
    job = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + ((uint64_t)getpid() << 44);
    PMPI(Ibcast)(&job, sizeof job, BYTE, 0, WORLD, &request);
    for (PMPI(Test)(&request, &done, MPI_STATUS_IGNORE); !done;) {
        usleep(100);
        PMPI(Test)(&request, &done, MPI_STATUS_IGNORE);
        if (!done && time(NULL) > last) refuse("ranks of the job are not recorded: is a program static?");
    }
}

/* Programs that this one starts are not counted. */
static void restore_preload(void) {
    const char* before = getenv("PETACOMM_RECORD_PRELOAD");
    if (before && *before)
        setenv("LD_PRELOAD", before, 1);
    else
        unsetenv("LD_PRELOAD");
}

static void begin(int provided) {
    static int begun;
    MPI_Comm parent;
    if (begun++ || !getenv("PETACOMM_RECORD")) return;
    check_library();
    restore_preload();
    PMPI(Comm_rank)(WORLD, &world_rank);
    PMPI(Comm_size)(WORLD, &world_size);
    agree_on_job();
    PMPI(Comm_get_parent)(&parent);
    if (parent != NO_COMM) return; /* spawned: of no rank of the job that is recorded */
    PMPI(Comm_group)(WORLD, &world_group);
    threaded = provided == MPI_THREAD_MULTIPLE;
    grow_counters();
    dl_iterate_phdr(find_fortran, NULL);
    on = 1;
}

/* Macros, not functions: the MPI is looked for in the scope of who calls. */
#define INITIALIZE(name, arguments, provided) \
    int code = PMPI(name) arguments;          \
    if (code == MPI_SUCCESS) begin(provided); \
    return code;

int MPI_Init(int* argc, char*** argv) { INITIALIZE(Init, (argc, argv), MPI_THREAD_SINGLE) }

int PMPI_Init(int* argc, char*** argv) { INITIALIZE(Init, (argc, argv), MPI_THREAD_SINGLE) }

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    INITIALIZE(Init_thread, (argc, argv, required, provided), *provided)
}

int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    INITIALIZE(Init_thread, (argc, argv, required, provided), *provided)
}

static void write_groups(FILE* file) {
    for (int i = 0; i < n_groups; i++) {
        const Group* group = &groups[i];
        char name[MPI_MAX_OBJECT_NAME];
        strcpy(name, group->name);
        for (char* c = name; *c; c++)
            if ((unsigned char)*c < ' ') *c = ' ';
        fprintf(file, "group %d %016" PRIx64 " %d %d %d %s\n", i, group->identity, group->size, group->rank,
                group->inter, name);
        if (group->rank || group->is_world) continue;
        fprintf(file, "ranks %d", i);
        for (int j = 0; j < group->size; j++) fprintf(file, " %d", group->ranks[j]);
        fprintf(file, "\n");
    }
}

static void write_counters(FILE* file) {
    for (size_t i = 0; i < n_slots; i++) {
        const Counter* counter = &counters[i];
        const Key* key = &counter->key;
        if (!counter->messages) continue;
        int at = (int32_t)(key->call >> 32), group = (int)(key->partner >> 32),
            partner = (int32_t)key->partner;
        const char* name = call_names[key->call & 255];
        if (key->call >> 31 & 1)
            fprintf(file, "collective %d %s %d %d %d %" PRIu64 " %" PRIu64 "\n", at, name, group, partner,
                    (int)key->item, key->size, counter->messages);
        else
            fprintf(file, "messages %d %s %d %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", at, name, group,
                    partner, key->size, counter->messages, counter->bytes);
    }
}

/* Write the file of this rank: under another name first, so that it is whole or absent. */
static void write_record(void) {
    char path[4096], part[4096];
    const char* folder = getenv("PETACOMM_RECORD");
    int length = snprintf(path, sizeof path, "%s/rank-%08d-%016" PRIx64 ".txt", folder, world_rank, job);
    int fits = length < (int)sizeof path - 8;
    snprintf(part, sizeof part, "%.4000s.part", path);
    FILE* file = fits ? fopen(part, "w") : NULL;
    if (file) {
        fprintf(file, "petacomm-record 1 %d %d %016" PRIx64 "\nlibrary %s\n", world_rank, world_size, job,
                library);
        write_groups(file);
        write_counters(file);
        fprintf(file, "spawned %" PRIu64 "\n", spawned);
        fprintf(file, "outside %" PRIu64 " %" PRIu64 "\nend\n", outside_messages, outside_bytes);
    }
    int failed = !file || ferror(file);
    failed |= file && fclose(file);
    if (failed || rename(part, path))
        fprintf(stderr, "petacomm record: %s cannot be written: %s\n", path, strerror(errno));
}

static int finalize(void) {
    if (on) {
        lock();
        for (int i = 0; i < 256; i++)
            for (Handle* handle = communicators[i]; handle; handle = handle->next)
                ask_name((MPI_Comm)handle->value);
        on = 0;
        unlock();
        PMPI(Group_free)(&world_group);
        write_record();
    }
    return PMPI(Finalize)();
}

int MPI_Finalize(void) { return finalize(); }

int PMPI_Finalize(void) { return finalize(); }
