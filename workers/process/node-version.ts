/**
 * The oldest Node that runs a node without flags. It runs TypeScript, and its V8 has what the
 * engine needs.
 */
export const MIN_NODE = '24.12'

/** @param version a version like `process.versions.node` */
export function isEnough(version: string): boolean {
  const [major = 0, minor = 0] = MIN_NODE.split('.').map(Number)
  const [ours = 0, ourMinor = 0] = version.split('.').map(Number)
  return ours > major || (ours === major && ourMinor >= minor)
}
