/**
 * This program runs inside its own mount namespace, fills the disk under a node and writes a
 * report. Its arguments are rounds and a seed.
 */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { PREDEPLOYS, readMarker } from '../../../engine/storage/directory/marker.ts'
import { PlainChain } from '../../fixtures/plain-chain.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'
import { mulberry32 } from '../../kit/run-options.ts'
import { checkStored } from './check-stored.ts'
import { compareAll, compareNewest, noDifferences } from './compare.ts'
import type { DiskReport } from './disk.ts'
import { createLoad, isCut } from './load.ts'

const rounds = Number(process.argv[2])
const random = mulberry32(Number(process.argv[3]))
const problems: string[] = []
const remarks: string[] = []

const DISK = mkdtempSync(join(tmpdir(), 'flashnode-disk-'))
const DATADIR = join(DISK, 'data')
const BALLAST = join(DISK, 'ballast')
/** The disk is large enough for the node with some minutes of load. */
const SIZE_MB = 96
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MB}m`, 'tmpfs', DISK])
if (mounted.status !== 0) throw new Error(`mount: ${mounted.stderr}`)

const FLAGS = ['--datadir', DATADIR, '--rate-limit', 'off', '--log-format', 'json']
/** The node prints this line at its end, and at a start that fails. */
const LINE = /^flashnode: .*(No space left|ENOSPC).*; free space on the disk/m
const LIMIT_MS = 60_000
/** Blocks that are sealed when the sequencer's journal fails still become durable. */
const MAX_SEALED = 4

const problem = (isWrong: boolean, what: string) => void (isWrong && problems.push(what))

const load = createLoad(random)
let plain: PlainChain | undefined

async function fill(round: number): Promise<void> {
  const node = await startNode(FLAGS)
  const ended = once(node.child, 'exit')
  const running = load.run(node, (error) => isCut(error) || isRefusal(error))
  await canonicalAt(node, node.head + 4)
  // The remaining space lasts for a few flashblocks, or for none.
  takeSpace(Math.floor(random() * 3) * 64 * 1024)
  const seen = await watchFailure(node)
  const [code] = await Promise.race([ended, sleep(LIMIT_MS, ['never'], { ref: false })])
  await running
  problem(code !== 1, `round ${round}: the node ended with ${code}`)
  problem(
    !LINE.test(node.output()),
    `round ${round}: its last words were ${node.output().slice(-300)}`,
  )
  problem(
    node.output().includes('view memory'),
    `round ${round}: the views had filled before the node ended`,
  )
  problem(seen.reads === 0, `round ${round}: nothing was read while it was not ready`)
  problem(seen.moved > MAX_SEALED, `round ${round}: ${seen.moved} blocks after the failure`)
  await startOnFull(round)
  rmSync(BALLAST)
  await goOn(round)
  remarks.push(`not ready for ${Math.round(seen.ms)} ms before the end, ${seen.reads} reads in it`)
}

const isRefusal = (error: unknown) =>
  /cannot be stored: the disk fails|the node is stopping|not ready/.test(String(error))

async function canonicalAt(node: RunningNode, number: number): Promise<void> {
  while (Number(await call(`${node.url}/`, 'eth_blockNumber')) < number) await sleep(50)
}

function takeSpace(leaveBytes: number): void {
  const { bsize, bavail } = statfsSync(DISK)
  try {
    appendFileSync(BALLAST, new Uint8Array(Math.max(0, bavail * bsize - leaveBytes)))
  } catch (error) {
    // The node has taken some of the space meanwhile, so nothing is left.
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}

/**
 * Watches until the node has ended: the state of /readyz, and whether reads still get responses.
 */
async function watchFailure(node: RunningNode) {
  const isGone = () => node.child.exitCode !== null
  let sinceMs: number | undefined
  let reads = 0
  let [first, last] = [undefined, 0] as [number | undefined, number]
  const until = performance.now() + LIMIT_MS
  while (!isGone() && performance.now() < until) {
    await sleep(20)
    try {
      const ready = await fetch(`${node.url}/readyz`)
      const body = await ready.text()
      if (ready.status !== 503 || body.includes('"stopping"')) {
        problem(sinceMs !== undefined && ready.status !== 503, 'the node was ready again')
        continue
      }
      problem(
        sinceMs === undefined && !/free space on the disk/.test(body),
        `not ready, and says ${body}`,
      )
      sinceMs ??= performance.now()
      last = await readAll(node)
      first ??= last
      reads += READS
    } catch (error) {
      // The end may come between two reads.
      if (!isCut(error) && !isRefusal(error)) problems.push(`a read failed: ${String(error)}`)
    }
  }
  problem(sinceMs === undefined, 'the node was never seen not ready')
  const ms = performance.now() - (sinceMs ?? performance.now())
  return { ms, reads, moved: last - (first ?? last) }
}

/**
 * Reads old and new blocks by the front and by the pool, on both endpoints. Returns the canonical
 * head.
 */
async function readAll(node: RunningNode): Promise<number> {
  // No receipt names this address, because a read of such addresses waits for a block that will
  // never be complete.
  const address = '0x00000000000000000000000000000000000000f2'
  for (const path of ['/', '/flashblocks'])
    for (const block of ['0x1', 'latest', 'pending']) {
      await call(`${node.url}${path}`, 'eth_getBalance', [address, block])
      await call(`${node.url}${path}`, 'eth_getBlockByNumber', [block, true])
      await call(`${node.url}${path}`, 'eth_call', [{ to: address }, block])
    }
  return Number(await call(`${node.url}/`, 'eth_blockNumber'))
}
const READS = 2 * 3 * 3 + 1

/** Checks that a start on the full disk says so, or ends like the run before. */
async function startOnFull(round: number): Promise<void> {
  let said = ''
  try {
    takeSpace(0)
    const node = await startNode(FLAGS)
    // A start may free some space, for example by deleting an old log or rewriting a journal.
    while (node.child.exitCode === null) {
      takeSpace(0)
      await sleep(50)
    }
    said = node.output()
    problem(node.child.exitCode !== 1, `round ${round}: on a full disk ${node.child.exitCode}`)
  } catch (error) {
    said = String(error)
    problem(!/ended with 1 before/.test(said), `round ${round}: a start on a full disk: ${said}`)
  }
  problem(!LINE.test(said), `round ${round}: a start on a full disk says ${said.slice(-300)}`)
}

/** Checks a start with free space: everything is present, and the chain goes on. */
async function goOn(round: number): Promise<void> {
  const node = await startNode(FLAGS)
  const differences = noDifferences()
  await compareNewest(node, load.seen, differences)
  await compareAll(node, load.seen, differences)
  await canonicalAt(node, node.head + 2)
  problem((await node.stop()) !== 0, `round ${round}: the node with space again did not end well`)
  problems.push(...differences.found)
  const { chain, chainId, genesisTimestamp } = readMarker(DATADIR)!
  const predeploysFile = join(DATADIR, PREDEPLOYS)
  const dev = { chainId, genesisTimestamp, predeploysFile, blockTime: 1 }
  plain ??= new PlainChain(chainSpec({ name: chain, dev }))
  const stored = await checkStored(DATADIR, { plain, random })
  remarks.push(
    `${differences.receipts} receipts and ${differences.hashes} hashes as before, ${stored.durable} blocks executed again`,
  )
}

for (let round = 0; round < rounds; round++) await fill(round)
const report: DiskReport = { problems, remarks }
process.stdout.write(JSON.stringify(report))
spawnSync('umount', [DISK])
rmSync(DISK, { recursive: true, force: true })
