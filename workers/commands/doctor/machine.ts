/** The machine: Node, memory, processors, file handles, the disk and how fast it is durable. */
import { closeSync, existsSync, fsyncSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { StartError } from '../../process/context.ts'
import { isEnough, LEAST_NODE } from '../../process/node-version.ts'
import { checkOpenFiles } from '../../process/open-files.ts'
import { atLeast, error, type Line, ok, warning } from './line.ts'

const GB = 2 ** 30
/** A node of a chain of X Layer's gas limit with its default caches has 1.3 GB; V8's heaps and the system come beside it (2026-11). */
const MEMORY = { wanted: 4 * GB, needed: 1.5 * GB }
/** Months of X Layer's blocks; below the second the next compaction may not find its room. */
const DISK = { wanted: 50 * GB, needed: 2 * GB }
/** A keeper is told to sync each second; a flashblock comes every 200 ms. */
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
        `${process.version}, ${LEAST_NODE} or later is needed`,
        'start it by `npx flashnode`, or in a checkout by `npm run flashnode`: they have their own',
      )
}

function memoryLine(): Line {
  // Of a container the bound of that.
  const allowed = process.constrainedMemory()
  const value = allowed > 0 && allowed < totalmem() ? allowed : totalmem()
  const free = process.availableMemory()
  return atLeast(
    'memory',
    { value: Math.min(value, free + MEMORY.needed), ...MEMORY },
    {
      says: `${gigabytes(value)} in all, ${gigabytes(free)} free`,
      advice:
        'give it more memory, or smaller --db-cache, --view-memory, --state-cache and --pool-threads',
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
        'give it two: blocks and calls of clients would wait for each other',
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

/** @param folder which need not be there yet */
function diskLines(folder: string): readonly Line[] {
  let place = resolve(folder)
  while (!existsSync(place)) place = dirname(place)
  try {
    const { bavail, bsize } = statfsSync(place)
    const space = atLeast(
      'disk',
      { value: bavail * bsize, ...DISK },
      {
        says: `${gigabytes(bavail * bsize)} free for ${folder}`,
        advice: 'make room, or give --datadir another disk; --history-blocks keeps less',
      },
    )
    return [space, syncLine(place)]
  } catch (fault) {
    const { message } = fault as Error
    return [
      error('disk', `${place} cannot be used: ${message}`, 'give a --datadir that can be written'),
    ]
  }
}

/** What a sync costs, as a block's commit has it. */
function syncLine(place: string): Line {
  const path = join(place, `.flashnode-doctor-${process.pid}`)
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
  return atLeast(
    'disk speed',
    { value: -middle, wanted: -SYNC_MS.wanted, needed: -SYNC_MS.needed },
    {
      says: `${middle.toFixed(1)} ms to write 4 kB durably, the slowest ${Math.max(...times).toFixed(1)} ms`,
      advice: 'use a local SSD: a network disk, or one that is shared, makes a node late',
    },
  )
}

const gigabytes = (bytes: number): string => `${(bytes / GB).toFixed(1)} GB`
