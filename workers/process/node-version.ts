/** Which Node can run a node: the first that runs TypeScript, and what the engine needs of V8, without a flag. */
export const LEAST_NODE = '24.12'

/** @param version as `process.versions.node` has it */
export function isEnough(version: string): boolean {
  const [major = 0, minor = 0] = LEAST_NODE.split('.').map(Number)
  const [ours = 0, ourMinor = 0] = version.split('.').map(Number)
  return ours > major || (ours === major && ourMinor >= minor)
}
