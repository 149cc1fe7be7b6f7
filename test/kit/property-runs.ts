/**
 * Gives the number of runs of an expensive property. The number is a third of `full`, and all of it
 * with `PROPERTY_RUNS=full`, which `.ci/full` sets.
 */
export const propertyRuns = (full: number): number =>
  process.env['PROPERTY_RUNS'] === 'full' ? full : Math.ceil(full / 3)
