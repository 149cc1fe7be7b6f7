/**
 * How often a dear property is tried: a third of the times, and all of them with `PROPERTY_RUNS=full`,
 * which `.ci/full` sets.
 */
export const propertyRuns = (full: number): number =>
  process.env['PROPERTY_RUNS'] === 'full' ? full : Math.ceil(full / 3)
