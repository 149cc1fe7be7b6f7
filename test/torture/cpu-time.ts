/** The limits of a run are in processor time, so a busy machine only makes the run longer. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
