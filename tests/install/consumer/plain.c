#include <foldcast.h>
#include <stdio.h>

/* The header is C: no C++ is needed to use the library. */
int main(void) {
  foldcast_comm_t comm = NULL;
  int32_t values[3] = {1, 2, 3};
  if (foldcast_comm_init(&comm) != FOLDCAST_SUCCESS ||
      foldcast_all_reduce(FOLDCAST_IN_PLACE, values, 3, FOLDCAST_INT32, FOLDCAST_SUM, comm, NULL) != FOLDCAST_SUCCESS) {
    fprintf(stderr, "%s\n", foldcast_last_error());
    return 1;
  }
  foldcast_comm_destroy(comm);
  return values[2] == 3 ? 0 : 1;
}
