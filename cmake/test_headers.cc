// Carries the precompiled headers that all tests share; see foldcast_test.
int main() { return 0; }
