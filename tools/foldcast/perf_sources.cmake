# The subcommands perf, info, explain and config. The parts of perf that its tests use without the command line are listed
# apart.
set(FOLDCAST_PERF_PARTS
  perf_file.cc perf_gnuplot.cc perf_job.cc perf_json.cc perf_measure.cc perf_numbers.cc perf_options.cc perf_plot.cc
  perf_reference.cc perf_report.cc perf_run.cc perf_statistics.cc perf_wire.cc)
set(FOLDCAST_PERF_SOURCES perf.cc info.cc info_facts.cc explain.cc config.cc ${FOLDCAST_PERF_PARTS})

# `foldcast info` asks hwloc itself. For the targets of the directory that includes this file.
link_libraries(PkgConfig::HWLOC)
