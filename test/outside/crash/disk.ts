/**
 * A disk fills up under a node. The disk is a file system of its own, which disappears with the
 * process that mounted it.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'

/** The report lists problems by property, and remarks in numbers. */
export type DiskReport = {
  readonly problems: readonly string[]
  readonly remarks: readonly string[]
}

const RUN = fileURLToPath(new URL('./disk-run.ts', import.meta.url))
/** These commands make a mount namespace, for root, and for a user where the system allows it. */
const WAYS = [
  ['--mount', '--propagation', 'private'],
  ['--user', '--map-root-user', '--mount', '--propagation', 'private'],
] as const

/** Fills a disk; undefined: this system does not allow a mount here. */
export async function fillDisk(options: {
  readonly rounds: number
  readonly seed: number
}): Promise<DiskReport | undefined> {
  const way = WAYS.find((flags) => {
    const mount = `mount -t tmpfs -o size=1m tmpfs '${tmpdir()}'`
    return spawnSync('unshare', [...flags, 'sh', '-c', mount], { stdio: 'ignore' }).status === 0
  })
  if (way === undefined) return undefined
  const argv = [RUN, String(options.rounds), String(options.seed)]
  const child = spawn('unshare', [...way, process.execPath, ...argv], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  const [code] = await once(child, 'close')
  if (code !== 0) return { problems: [`the scenario ended with ${code}: ${output}`], remarks: [] }
  return JSON.parse(output) as DiskReport
}
