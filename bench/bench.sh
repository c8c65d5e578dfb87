#!/bin/sh
# The benchmark suite in one command: bench/bench.sh --quick, or --help. bench/README.md says what it measures and how.
set -eu
cd "$(dirname "$0")/.."

# Where the executables are: --build DIR among the options, else build.
build=build
previous=
for word in "$@"; do
  [ "$previous" = --build ] && build=$word
  previous=$word
done

if [ ! -x "$build/moongate" ] || [ ! -x "$build/moongate-load" ]; then
  cmake -S . -B "$build" >&2
  cmake --build "$build" --target moongate bench >&2
fi
exec luajit bench/lib/suite.lua "$@"
