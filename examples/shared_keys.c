/* Sums on keys that ranks share, from C: mpicc shared_keys.c $(petacomm config) -o shared_keys */
#include <petacomm.h>
#include <stdio.h>

enum { N_KEYS = 1000, WIDTH = 3 };

static void check(int code) {
    if (code == 0) return;
    fprintf(stderr, "%s\n", petacomm_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
    static int64_t keys[N_KEYS];
    static double values[N_KEYS][WIDTH];
    static int32_t holders[N_KEYS];
    petacomm_plan* plan;
    int64_t n_global;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < N_KEYS; ++i)
        keys[i] = i + N_KEYS / 2 * rank; /* half of them are the next rank's, too */
    check(petacomm_plan_create(MPI_COMM_WORLD, N_KEYS, keys, NULL, &plan));
    check(petacomm_plan_owners(plan, NULL, holders));
    check(petacomm_plan_n_global(plan, &n_global));

    for (int i = 0; i < N_KEYS; ++i)
        for (int k = 0; k < WIDTH; ++k) values[i][k] = 1.0;
    check(petacomm_allreduce(plan, values, WIDTH, PETACOMM_DOUBLE, PETACOMM_SUM, 1));
    for (int i = 0; i < N_KEYS; ++i)
        for (int k = 0; k < WIDTH; ++k)
            if (values[i][k] != holders[i]) MPI_Abort(MPI_COMM_WORLD, 1);

    if (rank == 0) printf("%lld keys in all\n", (long long)n_global);
    check(petacomm_plan_free(&plan));
    MPI_Finalize();
    return 0;
}
