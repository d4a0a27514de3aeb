/* Calls all functions of petacomm.h, and says on rank 0 that their results are right. */
#include <petacomm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void must(int holds, const char *what) {
    if (holds) return;
    printf("rank %d: %s: %s\n", rank, what, petacomm_error_message());
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Keys 0 to size: rank r has r and r + 1. */
static void reductions(MPI_Comm comm) {
    const int64_t keys[2] = {rank, rank + 1};
    petacomm_plan *plan;
    uint8_t owned[2];
    int32_t holders[2];
    int64_t n_global, counts[2] = {1, 1};
    double sums[2][2] = {{0.5 * rank, 1}, {0.25, 1}}, owners[2];
    float least[2] = {(float)rank, (float)-rank};
    must(petacomm_plan_create(comm, 2, keys, "owner", &plan) == 0, "create");
    must(petacomm_plan_owners(plan, owned, holders) == 0, "owners");
    must(petacomm_plan_n_global(plan, &n_global) == 0 && n_global == size + 1, "n_global");
    must(holders[0] == (rank > 0 ? 2 : 1) && holders[1] == (rank + 1 < size ? 2 : 1), "holders");
    must(petacomm_allreduce(plan, counts, 1, PETACOMM_INT64, PETACOMM_SUM, 0) == 0, "integers");
    must(counts[0] == holders[0] && counts[1] == holders[1], "sums of integers");
    must(petacomm_allreduce_begin(plan, sums, 2, PETACOMM_DOUBLE, PETACOMM_SUM, 1) == 0, "begin");
    must(petacomm_allreduce_end(plan) == 0, "end");
    must(sums[0][0] == 0.5 * rank + (rank > 0 ? 0.25 : 0), "exact sums");
    must(sums[0][1] == holders[0] && sums[1][1] == holders[1], "exact sums of the second column");
    must(petacomm_allreduce(plan, least, 1, PETACOMM_FLOAT, PETACOMM_MIN, 0) == 0, "minima");
    must(least[0] == (rank > 0 ? (float)(1 - rank) : 0.0f), "least of two ranks");
    owners[0] = owners[1] = rank + 1;
    must(petacomm_broadcast(plan, owners, 1, PETACOMM_DOUBLE) == 0, "broadcast");
    for (int i = 0; i < 2; ++i) must((owners[i] == rank + 1) == owned[i], "values of owners");
    owners[0] = owners[1] = 1;
    must(petacomm_reduce(plan, owners, 1, PETACOMM_DOUBLE, PETACOMM_SUM, 0) == 0, "reduce");
    for (int i = 0; i < 2; ++i) must(owners[i] == (owned[i] ? holders[i] : 1), "reduced to owners");
    must(petacomm_plan_free(&plan) == 0 && plan == NULL, "free");
}

/* Rank r owns keys 20 + 2 r and 21 + 2 r, the larger first; its ghosts are the next rank's, the smaller first. */
static void halos(MPI_Comm comm) {
    const int64_t after = 2 * ((rank + 1) % size), before = (rank + size - 1) % size;
    const int64_t own[2] = {21 + 2 * rank, 20 + 2 * rank}, ghosts[2] = {20 + after, 21 + after};
    const int n_ghosts = size > 1 ? 2 : 0;
    petacomm_halo *halo, *other;
    int32_t owners[2] = {-1, -1};
    double values[4][2], sums[4] = {1, 2, 10, 20};
    int64_t counts[4] = {rank, 0, rank + 5, -1};
    must(petacomm_halo_create(comm, 2, own, n_ghosts, ghosts, &halo) == 0, "halo");
    must(petacomm_halo_create(comm, 2, own, n_ghosts, ghosts, &other) == 0, "another halo");
    must(petacomm_halo_owners(halo, owners) == 0, "owners");
    for (int i = 0; i < n_ghosts; ++i) must(owners[i] == (rank + 1) % size, "the owner is the next rank");
    for (int turn = 0; turn < 2; ++turn) {
        for (int i = 0; i < 4; ++i)
            for (int k = 0; k < 2; ++k) values[i][k] = i < 2 ? own[i] + 0.5 * k : -7;
        if (turn == 0) must(petacomm_halo_exchange(halo, values, 2, PETACOMM_DOUBLE) == 0, "exchange");
        if (turn == 1) {
            must(petacomm_halo_exchange_begin(halo, values, 2, PETACOMM_DOUBLE) == 0, "begin");
            must(values[2][0] == -7 && values[0][1] == own[0] + 0.5, "rows between the halves");
            must(petacomm_halo_exchange_begin(halo, values, 2, PETACOMM_DOUBLE) != 0, "begin twice");
            must(petacomm_halo_reduce(other, counts, 1, PETACOMM_INT64, PETACOMM_MAX) == 0, "maxima");
            must(petacomm_halo_exchange_end(halo) == 0, "end");
        }
        for (int i = 0; i < n_ghosts; ++i)
            for (int k = 0; k < 2; ++k) must(values[2 + i][k] == ghosts[i] + 0.5 * k, "ghosts");
    }
    must(counts[0] == rank && counts[1] == (size > 1 ? before + 5 : 0) && counts[2] == rank + 5, "maxima at owners");
    must(petacomm_halo_reduce_begin(halo, sums, 1, PETACOMM_DOUBLE, PETACOMM_SUM) == 0, "begin to reduce");
    sums[0] += 100;
    must(petacomm_halo_reduce_end(halo) == 0 && petacomm_halo_reduce_end(halo) != 0, "end to reduce");
    must(sums[0] == (size > 1 ? 121 : 101) && sums[1] == (size > 1 ? 12 : 2) && sums[2] == 10, "sums at owners");
    must(petacomm_halo_free(&halo) == 0 && petacomm_halo_free(&other) == 0 && halo == NULL, "free");
}

/* From slabs of rows to slabs of columns, which lie column by column. */
static void redistributions(void) {
    const int64_t shape[2] = {7, 5}, order[2] = {1, 0};
    const int64_t by_rows[2] = {size, 1}, by_columns[2] = {1, size};
    int64_t before[2], after[2], first_row = 0, first_column = 0;
    petacomm_redistribution *plan;
    must(petacomm_redistribution_create(MPI_COMM_WORLD, 2, shape, by_rows, NULL, by_columns, order, sizeof(int32_t),
                                        &plan) == 0, "redistribution");
    must(petacomm_redistribution_shapes(plan, before, after) == 0, "shapes");
    MPI_Exscan(&before[0], &first_row, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Exscan(&after[1], &first_column, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    int32_t *from = malloc(4 * (before[0] * before[1] + 1)), *to = malloc(4 * (after[0] * after[1] + 1));
    for (int64_t i = 0; i < before[0]; ++i)
        for (int64_t j = 0; j < 5; ++j) from[i * 5 + j] = (int32_t)(10 * (first_row + i) + j);
    for (int turn = 0; turn < 2; ++turn) {
        memset(to, 0xff, 4 * (after[0] * after[1]));
        must(petacomm_redistribute(plan, from, to) == 0, "redistribute");
        for (int64_t j = 0; j < after[1]; ++j)
            for (int64_t i = 0; i < 7; ++i) must(to[j * 7 + i] == 10 * i + first_column + j, "columns");
    }
    must(petacomm_redistribution_free(&plan) == 0 && plan == NULL, "free");
    free(from);
    free(to);
}

static void order_of_ranks(void) {
    const int64_t next = (rank + 1) % size;
    const double bytes = 100;
    int new_size;
    MPI_Comm reordered;
    must(petacomm_reorder(MPI_COMM_WORLD, 1, &next, &bytes, &reordered) == 0, "reorder");
    MPI_Comm_size(reordered, &new_size);
    must(new_size == size, "ranks of the new communicator");
    reductions(MPI_COMM_WORLD);
    MPI_Comm_free(&reordered);
}

/* Communicators of other sizes, whose handles MPI uses again. */
static void parts(void) {
    const int all_rank = rank, all_size = size;
    for (int n_parts = 1; n_parts <= 3; ++n_parts) {
        MPI_Comm part;
        MPI_Comm_split(MPI_COMM_WORLD, all_rank % n_parts, all_rank, &part);
        MPI_Comm_rank(part, &rank);
        MPI_Comm_size(part, &size);
        reductions(part);
        halos(part);
        MPI_Comm_free(&part);
    }
    rank = all_rank, size = all_size;
}

static void error_handlers(void) {
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    must(handler == MPI_ERRORS_ARE_FATAL, "the program's error handler");
}

static void errors(void) {
    const int64_t falling[2] = {5, 3}, keys[1] = {0}, none = 0;
    petacomm_plan *plan;
    double value = 1;
    must(petacomm_plan_create(MPI_COMM_WORLD, 2, falling, NULL, &plan) != 0 && plan == NULL, "keys that fall");
    if (rank == 0) printf("%s\n", petacomm_error_message());
    must(petacomm_plan_create(MPI_COMM_WORLD, rank == size - 1 ? -1 : 1, keys, NULL, &plan) != 0, "-1 keys");
    if (rank == 0) printf("%s\n", petacomm_error_message());
    must(petacomm_plan_create(MPI_COMM_WORLD, 1, keys, "best", &plan) != 0, "an algorithm");
    if (rank == 0) printf("%s\n", petacomm_error_message());
    must(petacomm_plan_create(MPI_COMM_NULL, 1, keys, NULL, &plan) != 0, "no communicator");
    must(petacomm_allreduce(NULL, &value, 1, PETACOMM_DOUBLE, PETACOMM_SUM, 0) != 0, "no plan");
    must(petacomm_plan_create(MPI_COMM_WORLD, 1, keys, NULL, NULL) != 0, "no place for a plan");
    must(petacomm_plan_free(NULL) != 0 && petacomm_halo_free(NULL) != 0, "no place of a plan");
    must(petacomm_plan_create(MPI_COMM_WORLD, 0, &none, NULL, &plan) == 0, "no keys");
    must(petacomm_plan_n_global(plan, NULL) != 0, "no place for a number");
    must(petacomm_allreduce(plan, NULL, (int64_t)1 << 61, PETACOMM_DOUBLE, PETACOMM_SUM, 0) != 0 &&
             strncmp(petacomm_error_message(), "0x2305843009213693952 values (no memory", 39) == 0,
         "more values than memory");
    must(petacomm_allreduce(plan, NULL, 3, PETACOMM_DOUBLE, PETACOMM_SUM, 0) == 0, "sums without keys");
    must(petacomm_allreduce(plan, NULL, 0, PETACOMM_DOUBLE, PETACOMM_SUM, 0) != 0, "rows of nothing");
    must(petacomm_allreduce(plan, NULL, 1, (petacomm_type)9, PETACOMM_SUM, 0) != 0, "a type");
    must(petacomm_allreduce(plan, NULL, 1, PETACOMM_DOUBLE, (petacomm_op)9, 0) != 0, "an operation");
    must(petacomm_plan_free(&plan) == 0 && petacomm_plan_free(&plan) != 0, "free twice");
}

static void errors_of_halos(void) {
    const int last = rank == size - 1;
    const int64_t own[2] = {rank, rank}, unknown[1] = {1000}, both[1] = {77};
    petacomm_halo *halo;
    double values[1] = {1};
    must(petacomm_halo_create(MPI_COMM_WORLD, 1, own, last, unknown, &halo) != 0 && halo == NULL, "no owner");
    if (last) printf("%s\n", petacomm_error_message());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    must(petacomm_halo_create(MPI_COMM_WORLD, size > 1 ? 1 : 2, size > 1 ? both : own, 0, NULL, &halo) != 0, "two owners");
    if (last) printf("%s\n", petacomm_error_message());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    must(petacomm_halo_create(MPI_COMM_WORLD, last ? -1 : 1, own, 0, NULL, &halo) != 0, "-1 keys of a halo");
    must(petacomm_halo_create(MPI_COMM_WORLD, 1, own, 0, NULL, &halo) == 0, "no ghosts");
    must(petacomm_halo_exchange(halo, values, 0, PETACOMM_DOUBLE) != 0, "rows of nothing");
    must(petacomm_halo_exchange(halo, values, 1, (petacomm_type)9) != 0, "a type");
    must(petacomm_halo_reduce(halo, values, 1, PETACOMM_DOUBLE, (petacomm_op)9) != 0, "an operation");
    must(petacomm_halo_exchange_end(halo) != 0, "an end without a begin");
    must(petacomm_halo_exchange(halo, values, 1, PETACOMM_DOUBLE) == 0 && values[0] == 1, "nothing to fill");
    must(petacomm_halo_free(&halo) == 0 && petacomm_halo_free(&halo) != 0, "free twice");
    must(petacomm_halo_exchange(NULL, values, 1, PETACOMM_DOUBLE) != 0, "no halo");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    reductions(MPI_COMM_WORLD);
    halos(MPI_COMM_WORLD);
    redistributions();
    order_of_ranks();
    parts();
    errors();
    errors_of_halos();
    error_handlers();
    if (rank == 0) printf("all is right\n");
    MPI_Finalize();
    return 0;
}
