/** What a run may take is counted in processor time: a busy machine then only makes it longer. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
