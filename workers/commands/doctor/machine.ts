/** Checks the machine: Node, memory, processors, file handles, free disk space and sync times. */
import { closeSync, existsSync, fsyncSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { StartError } from '../../process/context.ts'
import { isEnough, MIN_NODE } from '../../process/node-version.ts'
import { checkOpenFiles } from '../../process/open-files.ts'
import { checkMinimum, error, type Line, ok, warning } from './line.ts'

const GB = 2 ** 30
/**
 * A node with X Layer's gas limit and default caches has 1.3 GB; V8's heaps and the system need
 * more (2026-11).
 */
const MEMORY = { wanted: 4 * GB, needed: 1.5 * GB }
/**
 * `wanted` is enough for months of X Layer's blocks; below `needed` the next compaction may run out
 * of space.
 */
const DISK = { wanted: 50 * GB, needed: 2 * GB }
/** The persistence thread syncs each second, and a flashblock comes every 200 ms. */
const SYNC_MS = { wanted: 20, needed: 200 }
const SYNCS = 25
const SYNC_BYTES = 4_096

export function machineLines(poolThreads: number, folder: string): readonly Line[] {
  return [nodeLine(), memoryLine(), coresLine(), filesLine(poolThreads), ...diskLines(folder)]
}

function nodeLine(): Line {
  return isEnough(process.versions.node)
    ? ok('node', process.version)
    : error(
        'node',
        `found ${process.version}, expected ${MIN_NODE} or later`,
        'start flashnode with `npx flashnode`, or with `npm run flashnode` in a checkout: both bring a suitable Node',
      )
}

function memoryLine(): Line {
  // In a container, the container's memory limit counts.
  const allowed = process.constrainedMemory()
  const value = allowed > 0 && allowed < totalmem() ? allowed : totalmem()
  const free = process.availableMemory()
  return checkMinimum(
    'memory',
    { value: Math.min(value, free + MEMORY.needed), ...MEMORY },
    {
      says: `${gigabytes(value)} in total, ${gigabytes(free)} free`,
      advice:
        'add memory, or start the node with smaller --db-cache, --view-memory, --state-cache and --pool-threads',
    },
  )
}

function coresLine(): Line {
  const cores = availableParallelism()
  return cores >= 2
    ? ok('processors', `${cores}`)
    : warning(
        'processors',
        '1',
        'use two or more: with one, blocks and calls of clients wait for each other',
      )
}

function filesLine(poolThreads: number): Line {
  try {
    checkOpenFiles(poolThreads)
    return ok('open files', `enough for ${poolThreads} pool threads`)
  } catch (fault) {
    if (!(fault instanceof StartError)) throw fault
    const [says, advice = ''] = fault.message.split(': ')
    return error('open files', says!, advice)
  }
}

/** @param folder may be absent */
function diskLines(folder: string): readonly Line[] {
  let existing = resolve(folder)
  while (!existsSync(existing)) existing = dirname(existing)
  try {
    const { bavail, bsize } = statfsSync(existing)
    const space = checkMinimum(
      'disk',
      { value: bavail * bsize, ...DISK },
      {
        says: `${gigabytes(bavail * bsize)} free for ${folder}`,
        advice:
          'free some space, or give --datadir another disk; a smaller --history-blocks needs less',
      },
    )
    return [space, syncLine(existing)]
  } catch (fault) {
    const { message } = fault as Error
    return [
      error('disk', `${existing} cannot be used: ${message}`, 'give a --datadir that is writable'),
    ]
  }
}

/** Measures the time of a sync, as a block's commit needs it. */
function syncLine(existing: string): Line {
  const path = join(existing, `.flashnode-doctor-${process.pid}`)
  const file = openSync(path, 'wx')
  const times: number[] = []
  try {
    for (let at = 0; at < SYNCS; at++) {
      const started = performance.now()
      writeSync(file, new Uint8Array(SYNC_BYTES))
      fsyncSync(file)
      times.push(performance.now() - started)
    }
  } finally {
    closeSync(file)
    rmSync(path)
  }
  const middle = times.toSorted((a, b) => a - b)[SYNCS >> 1]!
  return checkMinimum(
    'disk speed',
    { value: -middle, wanted: -SYNC_MS.wanted, needed: -SYNC_MS.needed },
    {
      says: `${middle.toFixed(1)} ms to write 4 kB durably, the slowest ${Math.max(...times).toFixed(1)} ms`,
      advice: 'use a local SSD: a node on a network disk or a shared disk falls behind',
    },
  )
}

const gigabytes = (bytes: number): string => `${(bytes / GB).toFixed(1)} GB`
