/**
 * Runs shards of histories, each in its own process, which ends with all that it leaves behind. As
 * many run as there are cores, up to 4.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Edit, editedEnv, editedExecArgv } from '../../kit/edits.ts'
import type { Report, Word } from './shard.ts'

export type Shard = {
  readonly runs: number
  readonly seed: number
  /** Edits of the product; with edits, a fault is reported without shrinking. */
  readonly edits?: readonly Edit[]
}

/**
 * Reports arrive in the order in which shards end. When `isEnough` is true after one, no further
 * shard starts.
 */
export async function runShards<Each extends Shard>(
  shards: readonly Each[],
  onReport: (report: Report, shard: Each) => void,
  isEnough: () => boolean = () => false,
): Promise<void> {
  // A folder in memory is faster than one on a disk.
  const parent = existsSync(MEMORY) ? MEMORY : tmpdir()
  const folder = mkdtempSync(join(parent, 'flashnode-histories-'))
  const children = new Set<ChildProcess>()
  const end = () => {
    for (const child of children) child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', end)
  const queue = [...shards]
  const work = async () => {
    for (let shard = queue.shift(); shard !== undefined; shard = queue.shift()) {
      onReport(await runShard(shard, folder, children), shard)
      if (isEnough()) queue.length = 0
    }
  }
  await Promise.all(Array.from({ length: Math.min(4, availableParallelism()) }, work))
  process.off('exit', end)
  end()
}
const MEMORY = '/dev/shm'
const SHARD = fileURLToPath(new URL('./shard.ts', import.meta.url))

function runShard(
  { runs, seed, edits }: Shard,
  folder: string,
  children: Set<ChildProcess>,
): Promise<Report> {
  const args = ['--runs', `${runs}`, '--seed', `${seed}`, ...(edits === undefined ? [] : ['--raw'])]
  const child = fork(SHARD, args, {
    execArgv: edits === undefined ? [] : [...editedExecArgv],
    env: { ...editedEnv(edits ?? []), TMPDIR: folder },
    // The output of an edited product is not of interest.
    stdio: ['ignore', 'inherit', edits === undefined ? 'inherit' : 'ignore', 'ipc'],
  })
  children.add(child)
  return new Promise((resolve, reject) => {
    let started = 0
    const hang = () => {
      child.kill('SIGKILL')
      const message = `history ${started} does not end`
      resolve({ histories: started, counts: {}, failure: { seed, history: undefined, message } })
    }
    let timer = setTimeout(hang, TIMEOUT_MS)
    child.on('message', (word: Word) => {
      clearTimeout(timer)
      if (word.type === 'report') return resolve(word.report)
      started++
      timer = setTimeout(hang, TIMEOUT_MS)
    })
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      children.delete(child)
      reject(new Error(`histories with seed ${seed} ended with ${code ?? signal}`))
    })
  })
}
/** A history takes a tenth of a second, so a process that is silent for this long hangs. */
const TIMEOUT_MS = 90_000
