/** A node under load is killed at chosen points, again and again on one data directory. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { PREDEPLOYS, readMarker } from '../../../engine/storage/directory/marker.ts'
import { PlainChain } from '../../fixtures/plain-chain.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'
import { checkStored } from './check-stored.ts'
import {
  compareAll,
  compareNewest,
  compareState,
  type Differences,
  noDifferences,
} from './compare.ts'
import { createLoad, isCut, type Load } from './load.ts'
import { killAt, NODE_POINTS, type Point, START_POINTS } from './points.ts'

export type NodeKills = {
  /** The number of kills by the name of the point. */
  readonly kills: ReadonlyMap<string, number>
  readonly differences: Differences
  /** One line for each difference between the databases and a plain execution. */
  readonly stored: readonly string[]
  readonly lives: number
  readonly blocks: number
  readonly rows: number
  /** The number of balances, nonces and slots that were read from a node at the end. */
  readonly reads: number
  readonly accepted: number
  readonly slowestStartMs: number
}

/** A point that is not reached within this time is not counted; the next round tries again. */
const KILL_ROUND_MS = 60_000
const LOOK_MS = 50
/** A node starts in about this time on a quiet machine. */
const START_MS = 1_500

/** Runs `rounds` over all points while `isInTime` holds; at least one. */
export async function killNodes(options: {
  readonly datadir: string
  readonly rounds: number
  readonly random: () => number
  readonly isInTime: () => boolean
}): Promise<NodeKills> {
  const { datadir, rounds, random, isInTime } = options
  const run = new Run(datadir, random)
  for (let round = 0; round < rounds && (round === 0 || isInTime()); round++)
    for (const point of orderOf(random)) await run.killOnce(point)
  await run.loadEnough()
  await run.end()
  return run.result()
}

/**
 * Orders the points. Points of a start need the remains of an earlier run: a journal, or an
 * interrupted persist pass.
 */
function orderOf(random: () => number): readonly (Point | 'any')[] {
  const [repeated, ...starts] = START_POINTS
  const [first, ...others] = shuffled<Point | 'any'>(NODE_POINTS, random)
  const order = [first!, ...shuffled<Point | 'any'>([...others, ...starts, 'any'], random)]
  const cut = order.findIndex((point) => point !== 'any' && point.name.endsWith('of the trie'))
  order.splice(cut + 1, 0, repeated!)
  return order
}

function shuffled<T>(items: readonly T[], random: () => number): readonly T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

class Run {
  readonly #datadir: string
  readonly #random: () => number
  readonly #load: Load
  readonly #differences = noDifferences()
  readonly #kills = new Map<string, number>()
  readonly #stored: string[] = []
  #plain: PlainChain | undefined
  #lives = 0
  #blocks = 0
  #rows = 0
  #slowestStartMs = 0

  constructor(datadir: string, random: () => number) {
    this.#datadir = datadir
    this.#random = random
    this.#load = createLoad(random)
    for (const { name } of [...NODE_POINTS, ...START_POINTS]) this.#kills.set(name, 0)
    this.#kills.set(ANY, 0)
  }

  /** Starts, compares, loads and kills the node, and then checks its database. */
  async killOnce(point: Point | 'any'): Promise<void> {
    const isHit = point === 'any' ? await this.#killStart() : await this.#killAt(point)
    const name = point === 'any' ? ANY : point.name
    if (isHit) this.#kills.set(name, this.#kills.get(name)! + 1)
    await this.#check()
  }

  async #killAt(point: Point): Promise<boolean> {
    const edit = killAt(point, 1 + Math.floor(this.#random() * point.times))
    let node: RunningNode
    try {
      node = await startNode(this.#flags, 'dev', [edit])
    } catch (error) {
      if (/ended with SIGKILL before/.test(String(error))) return true
      throw error
    }
    return this.#live(node)
  }

  /** Kills the node from outside while it loads, opens, repairs or starts to serve. */
  async #killStart(): Promise<boolean> {
    const argv = ['workers/main.ts', 'dev', '--port', '0', '--admin-port', '0', ...this.#flags]
    const child = spawn(process.execPath, argv, { stdio: 'ignore' })
    const ended = once(child, 'exit')
    await sleep(this.#random() * START_MS)
    child.kill('SIGKILL')
    const [, signal] = await ended
    return signal === 'SIGKILL'
  }

  /**
   * Runs until the node dies. False: the node never reached its point and was killed from outside.
   */
  async #live(node: RunningNode): Promise<boolean> {
    this.#slowestStartMs = Math.max(this.#slowestStartMs, node.readyMs)
    let isLate = false
    const late = setTimeout(() => {
      isLate = true
      node.child.kill('SIGKILL')
    }, KILL_ROUND_MS)
    try {
      await compareNewest(node, this.#load.seen, this.#differences)
      await this.#load.run(node)
    } catch (error) {
      if (!isCut(error)) throw new Error(`${(error as Error).message}; ${node.output()}`)
    }
    clearTimeout(late)
    await node.stop('SIGKILL')
    return !isLate
  }

  /** Checks a copy of the dead node's database. */
  async #check(): Promise<void> {
    this.#lives++
    const marker = readMarker(this.#datadir)
    // The node was killed before it had written which chain the directory has.
    if (marker === undefined) return
    const chain = chainSpec({
      name: marker.chain,
      dev: {
        chainId: marker.chainId,
        genesisTimestamp: marker.genesisTimestamp,
        predeploysFile: join(this.#datadir, PREDEPLOYS),
        blockTime: 1,
      },
    })
    this.#plain ??= new PlainChain(chain)
    try {
      const found = await checkStored(this.#datadir, {
        plain: this.#plain,
        random: this.#random,
      })
      this.#blocks = found.durable
      this.#rows += found.rows
    } catch (error) {
      this.#stored.push((error as Error).message)
    }
  }

  /** Runs one more time if the kills came before much load, which happens on a slow machine. */
  async loadEnough(): Promise<void> {
    const { accepted, canonical } = this.#load.seen
    const lives = this.#lives + 1
    const isEnough = () => accepted.size > lives && Math.max(-1, ...canonical.keys()) > lives
    if (isEnough()) return
    const node = await startNode(this.#flags)
    const timer = setInterval(() => isEnough() && node.child.kill('SIGKILL'), LOOK_MS)
    await this.#live(node)
    clearInterval(timer)
    await this.#check()
  }

  /** Starts once more until everything is canonical, and stops by a signal. */
  async end(): Promise<void> {
    const node = await startNode(this.#flags)
    await compareNewest(node, this.#load.seen, this.#differences)
    await compareAll(node, this.#load.seen, this.#differences)
    const status = await node.stop()
    if (status !== 0) this.#differences.found.push(`the last node ended with ${status}`)
    await this.#check()
    // Without a sequencer the chain stands still while it is read.
    const served = await startNode(this.#flags, 'serve')
    this.#reads = await compareState(served, this.#plain!, {
      to: this.#differences,
      random: this.#random,
    })
    await served.stop()
  }
  #reads = 0

  result(): NodeKills {
    return {
      kills: this.#kills,
      differences: this.#differences,
      stored: this.#stored,
      lives: this.#lives,
      blocks: this.#blocks,
      rows: this.#rows,
      reads: this.#reads,
      accepted: this.#load.seen.accepted.size,
      slowestStartMs: this.#slowestStartMs,
    }
  }

  get #flags(): readonly string[] {
    return ['--datadir', this.#datadir, '--rate-limit', 'off', '--log-level', 'warn']
  }
}

const ANY = 'start, at a random moment'
