/** A node under load, killed at chosen places again and again on one data directory. */
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
  /** Kills by the name of their place. */
  readonly kills: ReadonlyMap<string, number>
  readonly differences: Differences
  /** One line each: what the databases hold and a plain execution does not, or the other way round. */
  readonly stored: readonly string[]
  readonly lives: number
  readonly blocks: number
  readonly rows: number
  /** Balances, nonces and slots that a node was asked for at the end. */
  readonly reads: number
  readonly accepted: number
  readonly slowestStartMs: number
}

/** A point that is not reached within this is not counted: the next round is its next chance. */
const LIFE_MS = 60_000
/** In which a node starts on a quiet machine, about. */
const START_MS = 1_500

/** `rounds` over all places, as long as `isInTime` says so; at least one. */
export async function killNodes(options: {
  readonly datadir: string
  readonly rounds: number
  readonly random: () => number
  readonly isInTime: () => boolean
}): Promise<NodeKills> {
  const { datadir, rounds, random, isInTime } = options
  const run = new Run(datadir, random)
  for (let round = 0; round < rounds && (round === 0 || isInTime()); round++)
    for (const point of orderOf(random)) await run.life(point)
  await run.end()
  return run.result()
}

/** Every place once. Those of a start need what an earlier life left: a journal, or a fold that was cut. */
function orderOf(random: () => number): readonly (Point | 'any')[] {
  const [repeated, ...starts] = START_POINTS
  const [first, ...others] = shuffled<Point | 'any'>(NODE_POINTS, random)
  const order = [first!, ...shuffled<Point | 'any'>([...others, ...starts, 'any'], random)]
  const cut = order.findIndex((place) => place !== 'any' && place.name.endsWith('of the trie'))
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

  /** Starts, compares, loads, dies; then its database is looked at. */
  async life(place: Point | 'any'): Promise<void> {
    const isHit = place === 'any' ? await this.#killStart() : await this.#killAt(place)
    const name = place === 'any' ? ANY : place.name
    if (isHit) this.#kills.set(name, this.#kills.get(name)! + 1)
    await this.#look()
  }

  async #killAt(place: Point): Promise<boolean> {
    const edit = killAt(place, 1 + Math.floor(this.#random() * place.times))
    let node: RunningNode
    try {
      node = await startNode(this.#flags, 'dev', [edit])
    } catch (error) {
      if (/ended with SIGKILL before/.test(String(error))) return true
      throw error
    }
    return this.#live(node)
  }

  /** From outside, while it loads, opens, repairs or begins to serve. */
  async #killStart(): Promise<boolean> {
    const argv = ['workers/main.ts', 'dev', '--port', '0', '--admin-port', '0', ...this.#flags]
    const child = spawn(process.execPath, argv, { stdio: 'ignore' })
    const ended = once(child, 'exit')
    await sleep(this.#random() * START_MS)
    child.kill('SIGKILL')
    const [, signal] = await ended
    return signal === 'SIGKILL'
  }

  /** Until it dies. False: it had to be killed from outside, because it never came to its place. */
  async #live(node: RunningNode): Promise<boolean> {
    this.#slowestStartMs = Math.max(this.#slowestStartMs, node.readyMs)
    let isLate = false
    const late = setTimeout(() => {
      isLate = true
      node.child.kill('SIGKILL')
    }, LIFE_MS)
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

  /** The dead node's database, in a copy. */
  async #look(): Promise<void> {
    this.#lives++
    const marker = readMarker(this.#datadir)
    // Killed before it had written which chain this is.
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

  /** One more start, in which everything must become canonical; and its end by a signal. */
  async end(): Promise<void> {
    const node = await startNode(this.#flags)
    await compareNewest(node, this.#load.seen, this.#differences)
    await compareAll(node, this.#load.seen, this.#differences)
    const status = await node.stop()
    if (status !== 0) this.#differences.found.push(`the last node ended with ${status}`)
    await this.#look()
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
