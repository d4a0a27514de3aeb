/* What codes of today call, in phases, each of which `test_modern_programs.py` knows to the byte; on 4 ranks.
 */
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORLD MPI_COMM_WORLD
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAVE_PERSISTENT
#endif

enum { N = 4, ROOM = 4096 };
static int rank, next, last;
static double out[ROOM], in[ROOM];

static void to_next(MPI_Comm comm, int count, MPI_Datatype type) {
    MPI_Sendrecv(out, count, type, next, 0, in, count, type, last, 0, comm, MPI_STATUS_IGNORE);
}

/* Nothing, to oneself, and to nobody. */
static void edges(void) {
    MPI_Request requests[2];
    MPI_Sendrecv(NULL, 0, MPI_DOUBLE, next, 0, NULL, 0, MPI_DOUBLE, last, 0, WORLD, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 3, MPI_DOUBLE, rank, 1, WORLD, requests);
    MPI_Isend(out, 3, MPI_DOUBLE, rank, 1, WORLD, requests + 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Send(out, 5, MPI_DOUBLE, MPI_PROC_NULL, 1, WORLD);
    MPI_Bcast(NULL, 0, MPI_DOUBLE, 0, WORLD);
}

/* Collectives in place: what MPI does not read there is none. */
static void in_place(void) {
    int counts[N], places[N], bytes[N], grows[N], begins[N];
    MPI_Datatype types[N];
    for (int i = 0; i < N; i++) {
        counts[i] = rank + i + 1, places[i] = 16 * i, bytes[i] = 128 * i, types[i] = MPI_INT;
        grows[i] = i + 1, begins[i] = i * (i + 1) / 2;
    }
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, counts, places, MPI_DOUBLE, WORLD);
    MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, in, counts, bytes, types, WORLD);
    MPI_Reduce_scatter(MPI_IN_PLACE, in, grows, MPI_DOUBLE, MPI_SUM, WORLD);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, grows, begins, MPI_DOUBLE, WORLD);
    if (rank)
        MPI_Gatherv(out, rank + 1, MPI_DOUBLE, NULL, NULL, NULL, MPI_DATATYPE_NULL, 0, WORLD);
    else
        MPI_Gatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, grows, begins, MPI_DOUBLE, 0, WORLD);
    if (rank == 3)
        MPI_Scatterv(out, grows, begins, MPI_DOUBLE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 3, WORLD);
    else
        MPI_Scatterv(NULL, NULL, NULL, MPI_DATATYPE_NULL, in, rank + 1, MPI_DOUBLE, 3, WORLD);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 5, MPI_DOUBLE, WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 6, MPI_DOUBLE, WORLD);
    MPI_Allreduce(MPI_IN_PLACE, in, 7, MPI_DOUBLE, MPI_SUM, WORLD);
    if (rank == 1) {
        MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 8, MPI_DOUBLE, 1, WORLD);
        MPI_Scatter(out, 9, MPI_DOUBLE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 1, WORLD);
        MPI_Reduce(MPI_IN_PLACE, in, 10, MPI_DOUBLE, MPI_SUM, 1, WORLD);
    } else {
        MPI_Gather(out, 8, MPI_DOUBLE, NULL, 0, MPI_DATATYPE_NULL, 1, WORLD);
        MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, in, 9, MPI_DOUBLE, 1, WORLD);
        MPI_Reduce(out, NULL, 10, MPI_DOUBLE, MPI_SUM, 1, WORLD);
    }
}

/* Neighbours in a graph that leaves the last rank alone, and in a line without ends that meet. */
static void neighbours(void) {
    int inside = rank < N - 1, from = (rank + N - 2) % (N - 1), to = (rank + 1) % (N - 1), zero = 0;
    int dims = N, periodic = 0, counts[2] = {2, 3}, sent = rank + 1, received = from + 1;
    MPI_Aint places[2] = {0, 512};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, back[2] = {MPI_DOUBLE, MPI_INT};
    int counts_back[2] = {3, 2};
    MPI_Comm graph, line;
    MPI_Request request;
    MPI_Dist_graph_create_adjacent(WORLD, inside, &from, MPI_UNWEIGHTED, inside, &to, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
#ifdef HAVE_PERSISTENT
    MPI_Neighbor_alltoallv_init(out, &sent, &zero, MPI_DOUBLE, in, &received, &zero, MPI_DOUBLE, graph,
                                MPI_INFO_NULL, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
#else
    for (int i = 0; i < 3; i++)
        MPI_Neighbor_alltoallv(out, &sent, &zero, MPI_DOUBLE, in, &received, &zero, MPI_DOUBLE, graph);
#endif
    MPI_Ineighbor_allgather(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, graph, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Cart_create(WORLD, 1, &dims, &periodic, 0, &line);
    MPI_Neighbor_alltoallw(out, counts, places, types, in, counts_back, places, back, line);
    MPI_Comm_free(&line);
    MPI_Comm_free(&graph);
}

/* Datatypes with holes, of which the data counts alone. */
static void datatypes(void) {
    struct Cell {
        char kind;
        double value;
    };
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct Cell, kind), offsetof(struct Cell, value)};
    MPI_Datatype parts[2] = {MPI_CHAR, MPI_DOUBLE}, rows, wide, cell, none;
    MPI_Type_vector(3, 2, 5, MPI_DOUBLE, &rows);
    MPI_Type_create_resized(rows, 0, 20 * sizeof(double), &wide);
    MPI_Type_create_struct(2, lengths, places, parts, &cell);
    MPI_Type_contiguous(0, MPI_DOUBLE, &none);
    MPI_Datatype* all[] = {&wide, &cell, &none};
    for (int i = 0; i < 3; i++) {
        MPI_Type_commit(all[i]);
        to_next(WORLD, 4 + i, *all[i]); /* 4 of 48 bytes, 5 of 9, 6 of none */
        MPI_Type_free(all[i]);
    }
    MPI_Type_free(&rows);
}

/* An intercommunicator: rank 0 is one side, the others are the other one. */
static void intercommunicator(void) {
    MPI_Comm side, inter;
    int counts[N] = {2, 2, 2, 0}, places[N] = {0, 8, 16, 24}, three = 3, zero = 0, two = 2;
    MPI_Comm_split(WORLD, rank > 0, rank, &side);
    MPI_Intercomm_create(side, 0, WORLD, rank ? 0 : 1, 3, &inter);
    MPI_Comm_set_name(inter, "inter");
    if (!rank) {
        for (int r = 1; r < N; r++) MPI_Send(out, r, MPI_DOUBLE, r - 1, 0, inter);
        MPI_Alltoallv(out, counts, places, MPI_DOUBLE, in, counts, places, MPI_DOUBLE, inter);
        MPI_Bcast(out, 4, MPI_DOUBLE, MPI_ROOT, inter);
        MPI_Reduce_scatter(out, in, &three, MPI_DOUBLE, MPI_SUM, inter);
    } else {
        int ones[N] = {1, 1, 1, 1 << 20};
        MPI_Recv(in, rank, MPI_DOUBLE, 0, 0, inter, MPI_STATUS_IGNORE);
        MPI_Alltoallv(out, &two, &zero, MPI_DOUBLE, in, &two, &zero, MPI_DOUBLE, inter);
        MPI_Bcast(in, 4, MPI_DOUBLE, 0, inter);
        MPI_Reduce_scatter(out, in, ones, MPI_DOUBLE, MPI_SUM, inter);
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&side);
}

/* One-sided calls, also such as read only: what MPI_NO_OP does not take is none. */
static void one_sided(void) {
    double *memory, value = 1, read[8];
    MPI_Win window;
    MPI_Request request;
    MPI_Win_allocate(64 * sizeof(double), sizeof(double), MPI_INFO_NULL, WORLD, &memory, &window);
    for (int i = 0; i < 64; i++) memory[i] = 0;
    MPI_Barrier(WORLD);
    MPI_Win_lock_all(0, window);
    if (rank == 3) {
        long one = 1, old = 0, found;
        MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, read, 2, MPI_DOUBLE, 1, 0, 2, MPI_DOUBLE, MPI_NO_OP,
                           window);
        MPI_Win_flush(1, window);
        MPI_Fetch_and_op(NULL, &value, MPI_DOUBLE, 1, 0, MPI_NO_OP, window);
        MPI_Fetch_and_op(&value, read, MPI_DOUBLE, 0, 0, MPI_SUM, window);
        MPI_Compare_and_swap(&one, &old, &found, MPI_LONG, 2, 8, window);
        MPI_Rput(out, 5, MPI_DOUBLE, 0, 8, 5, MPI_DOUBLE, window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Put(out, 6, MPI_DOUBLE, MPI_PROC_NULL, 0, 6, MPI_DOUBLE, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

/* Partitioned messages, and both ways without waiting. */
static void partitioned(void) {
#ifdef HAVE_PERSISTENT
    MPI_Request requests[2];
    MPI_Psend_init(out, 4, 3, MPI_DOUBLE, next, 7, WORLD, MPI_INFO_NULL, requests);
    MPI_Precv_init(in, 4, 3, MPI_DOUBLE, last, 7, WORLD, MPI_INFO_NULL, requests + 1);
    for (int turn = 0; turn < 2; turn++) {
        MPI_Startall(2, requests);
        MPI_Pready_range(0, 3, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(requests);
    MPI_Request_free(requests + 1);
    MPI_Isendrecv(out, 5, MPI_DOUBLE, next, 8, in, 5, MPI_DOUBLE, last, 8, WORLD, requests);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
    MPI_Isendrecv_replace(out, 6, MPI_DOUBLE, next, 9, last, 9, WORLD, requests);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
#endif
}

static void* send_in_thread(void* comm) {
    double sent[6] = {0}, received[6];
    for (int i = 0; i < 50; i++)
        MPI_Sendrecv(sent, 1 + i % 6, MPI_DOUBLE, next, 0, received, 6, MPI_DOUBLE, last, 0, *(MPI_Comm*)comm,
                     MPI_STATUS_IGNORE);
    return NULL;
}

/* Threads that all call MPI, each with a communicator of its own. */
static void threads(void) {
    pthread_t thread[3];
    MPI_Comm comms[3];
    for (int i = 0; i < 3; i++) MPI_Comm_dup(WORLD, comms + i);
    for (int i = 0; i < 3; i++) pthread_create(thread + i, NULL, send_in_thread, comms + i);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) MPI_Comm_free(comms + i);
}

/* Communicators of nodes and of every other rank, in which the others have no part. */
static void parts(void) {
    MPI_Comm node, leaders;
    MPI_Request request;
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    to_next(node, 2, MPI_DOUBLE);
    MPI_Comm_split(WORLD, rank % 2 ? MPI_UNDEFINED : 0, rank, &leaders);
    if (leaders != MPI_COMM_NULL) {
        MPI_Comm_idup(leaders, &node, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Sendrecv(out, 7, MPI_DOUBLE, 1 - rank / 2, 0, in, 7, MPI_DOUBLE, 1 - rank / 2, 0, node,
                     MPI_STATUS_IGNORE);
        MPI_Comm_free(&leaders);
        MPI_Comm_disconnect(&node);
    }
}

/* A process that is forked ends by itself; the messages of this one are counted on. */
static void forked(void) {
    to_next(WORLD, 3, MPI_DOUBLE);
    const pid_t child = fork();
    if (!child) exit(0);
    waitpid(child, NULL, 0);
    to_next(WORLD, 4, MPI_DOUBLE);
}

/* MPI-4's large counts. */
static void large_counts(void) {
#if MPI_VERSION >= 4
    MPI_Count counts[N], one = 1;
    MPI_Aint places[N];
    MPI_Request requests[2];
    for (int i = 0; i < N; i++) counts[i] = i + 1, places[i] = 8 * i;
    MPI_Irecv_c(in, 11, MPI_DOUBLE, last, 0, WORLD, requests);
    MPI_Isend_c(out, 11, MPI_DOUBLE, next, 0, WORLD, requests + 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) counts[i] = rank + i + 1;
    MPI_Alltoallv_c(out, counts, places, MPI_DOUBLE, in, counts, places, MPI_DOUBLE, WORLD);
    for (int i = 0; i < N; i++) counts[i] = i + 1;
    MPI_Reduce_scatter_c(out, in, counts, MPI_DOUBLE, MPI_SUM, WORLD);
    MPI_Allreduce_init_c(out, in, one, MPI_DOUBLE, MPI_SUM, WORLD, MPI_INFO_NULL, requests);
    for (int i = 0; i < 5; i++) {
        MPI_Start(requests);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(requests);
#endif
}

int main(int n_words, char** words) {
    void (*const phases[])(void) = {edges,       in_place,    neighbours, datatypes, intercommunicator,
                                    one_sided,   partitioned, threads,    parts,     forked,
                                    large_counts};
    int provided;
    MPI_Init_thread(&n_words, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(WORLD, &rank);
    next = (rank + 1) % N, last = (rank + N - 1) % N;
    for (int i = 0; i < (int)(sizeof phases / sizeof *phases); i++) {
        MPI_Pcontrol(i + 1);
        phases[i]();
    }
    MPI_Finalize();
    return 0;
}
