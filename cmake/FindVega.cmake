# Finds the modules of Vega that the report's page embeds (Debian: libjs-vega).
#   Vega_DIR        where its modules lie
#   Vega_MODULES    file names, each after those it needs
#   Vega_COPYRIGHT  the licence, which travels with every page
find_path(Vega_DIR vega-view.min.js
          PATH_SUFFIXES javascript/vega share/javascript/vega lib/nodejs/vega)
find_file(Vega_COPYRIGHT NAMES copyright PATHS /usr/share/doc/libjs-vega "${Vega_DIR}")
set(Vega_MODULES vega-util.min.js vega-time.min.js vega-format.min.js vega-loader.min.js
    vega-dataflow.min.js vega-statistics.min.js vega-expression.min.js vega-event-selector.min.js
    vega-selection.min.js vega-canvas.min.js vega-scale.min.js vega-scenegraph.min.js
    vega-functions.min.js vega-parser.min.js vega-runtime.min.js vega-transforms.min.js
    vega-encode.min.js vega-view-transforms.min.js vega-view.min.js)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Vega REQUIRED_VARS Vega_DIR Vega_COPYRIGHT
  REASON_FAILURE_MESSAGE "Install Debian's libjs-vega, as scripts/setup does, or pass \
-DVega_DIR=DIR and -DVega_COPYRIGHT=FILE.")
