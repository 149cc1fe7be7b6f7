/** A disk that fills up under a node: in a file system of its own, which goes with the process that mounted it. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'

/** What the scenario found, by property; and in numbers. */
export type DiskReport = {
  readonly problems: readonly string[]
  readonly notes: readonly string[]
}

const RUN = fileURLToPath(new URL('./disk-run.ts', import.meta.url))
/** A mount of its own, for root and for a user where the system lets users have one. */
const WAYS = [
  ['--mount', '--propagation', 'private'],
  ['--user', '--map-root-user', '--mount', '--propagation', 'private'],
] as const

/** undefined: this system lets nobody mount a file system here. */
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
  if (code !== 0) return { problems: [`the scenario ended with ${code}: ${output}`], notes: [] }
  return JSON.parse(output) as DiskReport
}
