/**
 * Runs of a dear property: a third of them, and all of them with `PROPERTY_RUNS=full`, which
 * `.ci/full` sets.
 */
export const propertyRuns = (full: number): number =>
  process.env['PROPERTY_RUNS'] === 'full' ? full : Math.ceil(full / 3)
