/* Wrappers of calls that have counts: included twice, for counts of 32 bits and for MPI-4's large counts.
 *
 * COUNT and DISPLACEMENT are the types of counts and displacements, F makes the name of a call. */

#ifndef CALLS_DEFINED
#define CALLS_DEFINED

#define LIST(...) __VA_ARGS__

/* A call that sends, under the name that programs call and the one that MPI's libraries for Fortran may call:
 * parameters and arguments are lists in parentheses. */
#define SENDING(name, parameters, arguments, statement) \
    int F(MPI_##name)(LIST parameters) {                \
        COUNTED(on, statement)                          \
        return PMPI(F(name))(LIST arguments);           \
    }                                                   \
    int F(PMPI_##name)(LIST parameters) {               \
        COUNTED(FROM_FORTRAN, statement)                \
        return PMPI(F(name))(LIST arguments);           \
    }

#define NONBLOCKING(name, parameters, arguments, statement) \
    SENDING(name, (LIST parameters, MPI_Request * request), (LIST arguments, request), statement)

#define PREPARED(name, parameters, arguments, statement)                         \
    int F(MPI_##name)(LIST parameters, MPI_Request * request) {                  \
        PLANNED(on, statement, PMPI(F(name))(LIST arguments, request))           \
    }                                                                            \
    int F(PMPI_##name)(LIST parameters, MPI_Request * request) {                 \
        PLANNED(FROM_FORTRAN, statement, PMPI(F(name))(LIST arguments, request)) \
    }

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAVE_PERSISTENT
#define PERSISTENT(name, parameters, arguments, statement) \
    PREPARED(name, (LIST parameters, MPI_Info info), (LIST arguments, info), statement)
#else
#define PERSISTENT(name, parameters, arguments, statement)
#endif

#define COLLECTIVE(name, nonblocking, parameters, arguments, statement) \
    SENDING(name, parameters, arguments, statement)                     \
    NONBLOCKING(nonblocking, parameters, arguments, statement)          \
    PERSISTENT(name##_init, parameters, arguments, statement)

#endif

/* --- messages */

#define MESSAGE (const void* data, COUNT count, MPI_Datatype type, int partner, int tag, MPI_Comm comm)
#define MESSAGE_ARGUMENTS (data, count, type, partner, tag, comm)
#define MESSAGE_NOTE note_message(comm, partner, count, type)
#define PREPARED_NOTE note_send(comm, partner, bytes_of(count, type))

SENDING(Send, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
SENDING(Bsend, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
SENDING(Ssend, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
SENDING(Rsend, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
NONBLOCKING(Isend, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
NONBLOCKING(Ibsend, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
NONBLOCKING(Issend, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
NONBLOCKING(Irsend, MESSAGE, MESSAGE_ARGUMENTS, MESSAGE_NOTE)
PREPARED(Send_init, MESSAGE, MESSAGE_ARGUMENTS, PREPARED_NOTE)
PREPARED(Bsend_init, MESSAGE, MESSAGE_ARGUMENTS, PREPARED_NOTE)
PREPARED(Ssend_init, MESSAGE, MESSAGE_ARGUMENTS, PREPARED_NOTE)
PREPARED(Rsend_init, MESSAGE, MESSAGE_ARGUMENTS, PREPARED_NOTE)

#define BOTH                                                                                               \
    (const void* data, COUNT count, MPI_Datatype type, int partner, int tag, void* into, COUNT into_count, \
     MPI_Datatype into_type, int source, int source_tag, MPI_Comm comm)
#define BOTH_ARGUMENTS \
    (data, count, type, partner, tag, into, into_count, into_type, source, source_tag, comm)
#define REPLACE                                                                                    \
    (void* data, COUNT count, MPI_Datatype type, int partner, int tag, int source, int source_tag, \
     MPI_Comm comm)
#define REPLACE_ARGUMENTS (data, count, type, partner, tag, source, source_tag, comm)

SENDING(Sendrecv, (LIST BOTH, MPI_Status* status), (LIST BOTH_ARGUMENTS, status), MESSAGE_NOTE)
SENDING(Sendrecv_replace, (LIST REPLACE, MPI_Status* status), (LIST REPLACE_ARGUMENTS, status), MESSAGE_NOTE)
#ifdef HAVE_PERSISTENT
NONBLOCKING(Isendrecv, BOTH, BOTH_ARGUMENTS, MESSAGE_NOTE)
NONBLOCKING(Isendrecv_replace, REPLACE, REPLACE_ARGUMENTS, MESSAGE_NOTE)
#endif

/* --- one-sided calls */

#define TARGET int partner, MPI_Aint at, COUNT there, MPI_Datatype type_there
#define TARGET_ARGUMENTS partner, at, there, type_there
#define WINDOW_NOTE(call) note_window(CALL_##call, window, partner, bytes_of(count, type))

#define PUT (const void* data, COUNT count, MPI_Datatype type, TARGET, MPI_Win window)
#define GET (void* data, COUNT count, MPI_Datatype type, TARGET, MPI_Win window)
#define PUT_ARGUMENTS (data, count, type, TARGET_ARGUMENTS, window)
#define ADD (const void* data, COUNT count, MPI_Datatype type, TARGET, MPI_Op op, MPI_Win window)
#define ADD_ARGUMENTS (data, count, type, TARGET_ARGUMENTS, op, window)
#define GET_ADD                                                                      \
    (const void* data, COUNT count, MPI_Datatype type, void* result, COUNT n_result, \
     MPI_Datatype result_type, TARGET, MPI_Op op, MPI_Win window)
#define GET_ADD_ARGUMENTS (data, count, type, result, n_result, result_type, TARGET_ARGUMENTS, op, window)
/* With MPI_NO_OP, what the caller would send is not read: these only get. */
#define GET_ADD_NOTE             \
    if (!is_no_op(op)) {         \
        WINDOW_NOTE(accumulate); \
    }                            \
    note_window(CALL_get, window, partner, bytes_of(n_result, result_type))

SENDING(Put, PUT, PUT_ARGUMENTS, WINDOW_NOTE(put))
SENDING(Get, GET, PUT_ARGUMENTS, WINDOW_NOTE(get))
SENDING(Accumulate, ADD, ADD_ARGUMENTS, WINDOW_NOTE(accumulate))
SENDING(Get_accumulate, GET_ADD, GET_ADD_ARGUMENTS, GET_ADD_NOTE)
NONBLOCKING(Rput, PUT, PUT_ARGUMENTS, WINDOW_NOTE(put))
NONBLOCKING(Rget, GET, PUT_ARGUMENTS, WINDOW_NOTE(get))
NONBLOCKING(Raccumulate, ADD, ADD_ARGUMENTS, WINDOW_NOTE(accumulate))
NONBLOCKING(Rget_accumulate, GET_ADD, GET_ADD_ARGUMENTS, GET_ADD_NOTE)

/* --- collectives with one count: petacomm makes messages of them */

/* What MPI_PROC_NULL, the root of a side that takes no part, has for arguments is not read. */
#define NOTE(call, root, count, type) \
    (void)((root) == MPI_PROC_NULL || note_collective(CALL_##call, comm, root, bytes_of(count, type), 1))
#define NOTE_SUM(call, root)          \
    (void)((root) == MPI_PROC_NULL || \
           note_collective(CALL_##call, comm, root, bytes_of(count, type), (int)bytes_of(1, type)))

COLLECTIVE(Bcast, Ibcast, (void* data, COUNT count, MPI_Datatype type, int root, MPI_Comm comm),
           (data, count, type, root, comm), NOTE(bcast, root, count, type))
COLLECTIVE(Reduce, Ireduce,
           (const void* data, void* result, COUNT count, MPI_Datatype type, MPI_Op op, int root,
            MPI_Comm comm),
           (data, result, count, type, op, root, comm), NOTE_SUM(reduce, root))

#define COMBINE (const void* data, void* result, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
#define COMBINE_ARGUMENTS (data, result, count, type, op, comm)

COLLECTIVE(Allreduce, Iallreduce, COMBINE, COMBINE_ARGUMENTS, NOTE_SUM(allreduce, 0))
COLLECTIVE(Scan, Iscan, COMBINE, COMBINE_ARGUMENTS, NOTE_SUM(scan, 0))
COLLECTIVE(Exscan, Iexscan, COMBINE, COMBINE_ARGUMENTS, NOTE_SUM(exscan, 0))
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, COMBINE, COMBINE_ARGUMENTS,
           NOTE_SUM(reduce_scatter_block, 0))

/* Blocks as the side has them whose arguments MPI reads on this rank, also in place. */
#define BLOCKS \
    const void *data, COUNT count, MPI_Datatype type, void *result, COUNT n_result, MPI_Datatype result_type
#define BLOCKS_ARGUMENTS data, count, type, result, n_result, result_type

COLLECTIVE(Gather, Igather, (BLOCKS, int root, MPI_Comm comm), (BLOCKS_ARGUMENTS, root, comm),
           if (is_root(comm, root)) NOTE(gather, root, n_result, result_type);
           else NOTE(gather, root, count, type))
COLLECTIVE(Scatter, Iscatter, (BLOCKS, int root, MPI_Comm comm), (BLOCKS_ARGUMENTS, root, comm),
           if (is_root(comm, root)) NOTE(scatter, root, count, type);
           else NOTE(scatter, root, n_result, result_type))
COLLECTIVE(Allgather, Iallgather, (BLOCKS, MPI_Comm comm), (BLOCKS_ARGUMENTS, comm),
           NOTE(allgather, 0, n_result, result_type))
COLLECTIVE(Alltoall, Ialltoall, (BLOCKS, MPI_Comm comm), (BLOCKS_ARGUMENTS, comm),
           NOTE(alltoall, 0, n_result, result_type))

/* --- collectives with a count a rank: messages from where a block is to where it goes */

#define EACH(i) for (int i = 0, n_ = n_partners(comm); i < n_; i++)

COLLECTIVE(Gatherv, Igatherv,
           (const void* data, COUNT count, MPI_Datatype type, void* result, const COUNT counts[],
            const DISPLACEMENT places[], MPI_Datatype result_type, int root, MPI_Comm comm),
           (data, count, type, result, counts, places, result_type, root, comm),
           if (root >= 0 && !is_root(comm, root)) note_block(CALL_gatherv, comm, root, bytes_of(count, type)))
COLLECTIVE(Scatterv, Iscatterv,
           (const void* data, const COUNT counts[], const DISPLACEMENT places[], MPI_Datatype type,
            void* result, COUNT count, MPI_Datatype result_type, int root, MPI_Comm comm),
           (data, counts, places, type, result, count, result_type, root, comm),
           if (is_root(comm, root)) EACH(i) note_block(CALL_scatterv, comm, i, bytes_of(counts[i], type)))

/* Round a ring: all blocks but that of the next rank pass through this one. */
COLLECTIVE(Allgatherv, Iallgatherv,
           (const void* data, COUNT count, MPI_Datatype type, void* result, const COUNT counts[],
            const DISPLACEMENT places[], MPI_Datatype result_type, MPI_Comm comm),
           (data, count, type, result, counts, places, result_type, comm),
           note_ring(comm, counts, sizeof(COUNT), result_type))
COLLECTIVE(
    Reduce_scatter, Ireduce_scatter,
    (const void* data, void* result, const COUNT counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
    (data, result, counts, type, op, comm),
    if (!group_at(comm)->inter) /* whose counts are of this side, while what it sends goes to the other */
    EACH(i) note_block(CALL_reduce_scatter, comm, i, bytes_of(counts[i], type)))
COLLECTIVE(Alltoallv, Ialltoallv,
           (const void* data, const COUNT counts[], const DISPLACEMENT places[], MPI_Datatype type,
            void* result, const COUNT result_counts[], const DISPLACEMENT result_places[],
            MPI_Datatype result_type, MPI_Comm comm),
           (data, counts, places, type, result, result_counts, result_places, result_type, comm),
           int in_place = data == MPI_IN_PLACE;
           EACH(i) note_block(CALL_alltoallv, comm, i,
                              in_place ? bytes_of(result_counts[i], result_type) : bytes_of(counts[i], type)))
COLLECTIVE(Alltoallw, Ialltoallw,
           (const void* data, const COUNT counts[], const DISPLACEMENT places[], const MPI_Datatype types[],
            void* result, const COUNT result_counts[], const DISPLACEMENT result_places[],
            const MPI_Datatype result_types[], MPI_Comm comm),
           (data, counts, places, types, result, result_counts, result_places, result_types, comm),
           int in_place = data == MPI_IN_PLACE;
           EACH(i) note_block(CALL_alltoallw, comm, i,
                              in_place ? bytes_of(result_counts[i], result_types[i])
                                       : bytes_of(counts[i], types[i])))

/* --- exchanges with the neighbours of a topology */

#define EACH_NEIGHBOUR(i) for (int i = 0, n_ = n_neighbours(comm); i < n_; i++)

COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, (BLOCKS, MPI_Comm comm), (BLOCKS_ARGUMENTS, comm),
           EACH_NEIGHBOUR(i) note_neighbour(CALL_neighbor_allgather, comm, i, bytes_of(count, type)))
COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv,
           (const void* data, COUNT count, MPI_Datatype type, void* result, const COUNT counts[],
            const DISPLACEMENT places[], MPI_Datatype result_type, MPI_Comm comm),
           (data, count, type, result, counts, places, result_type, comm),
           EACH_NEIGHBOUR(i) note_neighbour(CALL_neighbor_allgather, comm, i, bytes_of(count, type)))
COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, (BLOCKS, MPI_Comm comm), (BLOCKS_ARGUMENTS, comm),
           EACH_NEIGHBOUR(i) note_neighbour(CALL_neighbor_alltoall, comm, i, bytes_of(count, type)))
COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv,
           (const void* data, const COUNT counts[], const DISPLACEMENT places[], MPI_Datatype type,
            void* result, const COUNT result_counts[], const DISPLACEMENT result_places[],
            MPI_Datatype result_type, MPI_Comm comm),
           (data, counts, places, type, result, result_counts, result_places, result_type, comm),
           EACH_NEIGHBOUR(i) note_neighbour(CALL_neighbor_alltoall, comm, i, bytes_of(counts[i], type)))
COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw,
           (const void* data, const COUNT counts[], const MPI_Aint places[], const MPI_Datatype types[],
            void* result, const COUNT result_counts[], const MPI_Aint result_places[],
            const MPI_Datatype result_types[], MPI_Comm comm),
           (data, counts, places, types, result, result_counts, result_places, result_types, comm),
           EACH_NEIGHBOUR(i) note_neighbour(CALL_neighbor_alltoall, comm, i, bytes_of(counts[i], types[i])))

#undef MESSAGE
#undef MESSAGE_ARGUMENTS
#undef MESSAGE_NOTE
#undef PREPARED_NOTE
#undef BOTH
#undef BOTH_ARGUMENTS
#undef REPLACE
#undef REPLACE_ARGUMENTS
#undef TARGET
#undef TARGET_ARGUMENTS
#undef WINDOW_NOTE
#undef PUT
#undef GET
#undef PUT_ARGUMENTS
#undef ADD
#undef ADD_ARGUMENTS
#undef GET_ADD
#undef GET_ADD_ARGUMENTS
#undef GET_ADD_NOTE
#undef NOTE
#undef NOTE_SUM
#undef COMBINE
#undef COMBINE_ARGUMENTS
#undef BLOCKS
#undef BLOCKS_ARGUMENTS
#undef EACH
#undef EACH_NEIGHBOUR
