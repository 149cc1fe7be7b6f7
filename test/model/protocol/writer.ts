/** The writer of engine/sources/writer*.ts: one event at a time; what it stores in shared memory is a step each. */
import { isFinished } from '../../../engine/chain/life.ts'
import type { Step } from '../explore.ts'
import { answerSteps, handOver } from './answers.ts'
import { beginBlock, jobStep, setJob } from './job.ts'
import { flush, setWriter } from './live-chain.ts'
import {
  beginRecycle,
  freePages,
  hasRoomInRing,
  isWorthLooking,
  lineOf,
  openTable,
  recycleStep,
} from './publisher.ts'
import { FINAL } from './scenario.ts'
import type { State, World, Writer } from './state.ts'

/** ChainWriter.apply, and within it guarded(trySealed, resumeHeld): any order of what has come. */
export function writerSteps(world: World, state: State): Step<State>[] {
  const { writer } = state
  if (writer.recycle !== null) return [recycleStep(world, state)]
  if (!hasRoomInRing(world, state)) {
    const { rows, head } = state.words
    const oldest = Math.min(head, ...rows.filter((row) => row !== 0).map(Math.abs))
    if (oldest <= writer.bound) return []
    return [{ label: 'writer makes room in the ring', run: () => beginRecycle(state) }]
  }
  if (writer.job !== null) return [jobStep(world, state)]
  return [...answerSteps(world, state), ...feedSteps(world, state), ...sealedSteps(world, state)]
}

/** Nothing is left that the writer has to do; packets that fit nowhere do not count. */
export const isWriterDone = ({ scenario }: World, { writer, answers }: State): boolean =>
  answers.length === 0 && writer.job === null && writer.sealed === scenario.sealed.length

function feedSteps(world: World, state: State): Step<State>[] {
  const { scenario, truth } = world
  const packet = scenario.feed[state.writer.feed]
  if (packet === undefined) return []
  const taken = setWriter(state, { feed: state.writer.feed + 1 })
  if (packet === 'flush') return [{ label: 'writer flushes', run: () => flush(world, taken) }]
  const [name, index] = packet
  const skip = { label: `writer skips ${name}.${index}`, run: () => taken }
  const { writer } = state
  if (index > 0) {
    const { block, state: life, tag } = writer.blocks[writer.pending]!
    if (block !== name || life !== 'open' || tag !== index - 1) return [skip]
    const isSplit = scenario.isLarge === true && index === 1
    if (isSplit && freePages(world, state) === 0) return outOfPages(world, state, taken)
    return [
      {
        label: `writer executes ${name}.${index}`,
        run: () => {
          const room = isSplit ? openTable(world, taken, writer.pending) : taken
          return setJob(world, room, {
            id: writer.pending,
            index,
            writes: truth.writes(name, index),
          })
        },
      },
    ]
  }
  const { number, parent: parentName } = truth.block(name)
  const decided = [writer.canonical, world.rules.handedHeight ? writer.handed : 0]
  // heightsOf: a block that the keeper holds is as good as canonical.
  if (decided.some((id) => number <= (writer.blocks[id]?.number ?? 0))) return [skip]
  const parent = heldParent(writer, parentName)
  if (parent === undefined) {
    const isOnItsWay = Object.values(writer.blocks).some(
      ({ block, state: life }) => block === parentName && life !== 'dropped',
    )
    return isOnItsWay ? [] : [skip]
  }
  if (freePages(world, state) === 0) return outOfPages(world, state, taken)
  return [{ label: `writer begins ${name}`, run: () => beginLive(world, taken, { name, parent }) }]
}

/** writer-packets.ts parentOf. */
function heldParent(writer: Writer, name: string): number | undefined {
  const line = lineOf(writer, writer.pending)
  const least = writer.blocks[writer.canonical]!.number
  return line.find((id) => {
    const { block, state: life, number } = writer.blocks[id]!
    return block === name && isFinished(life) && number >= least
  })
}

function beginLive(
  world: World,
  state: State,
  { name, parent }: { readonly name: string; readonly parent: number },
): State {
  const { begun, id } = beginBlock(world, state, { name, parent, isWhole: false })
  const { writer } = begun
  const reused = Object.entries(writer.blocks).find(
    ([, other]) => other.parent === parent && other.tag !== FINAL && other.tag >= 0,
  )
  const opened =
    world.rules.newTable || reused === undefined
      ? openTable(world, begun, id)
      : setWriter(begun, {
          blocks: {
            ...writer.blocks,
            [reused[0]]: { ...reused[1], tables: [] },
            [id]: { ...writer.blocks[id]!, tables: reused[1].tables },
          },
        })
  return setJob(world, opened, { id, index: 0, writes: world.truth.writes(name, 0) })
}

/** writer-state.ts freeMemory: the flashblock is given up, and pending with it. */
function outOfPages(world: World, state: State, taken: State): Step<State>[] {
  if (isWorthLooking(state))
    return [{ label: 'writer looks for pages', run: () => beginRecycle(state) }]
  return [{ label: 'writer has no page and flushes', run: () => flush(world, taken) }]
}

function sealedSteps(world: World, state: State): Step<State>[] {
  const { scenario, truth } = world
  const { writer } = state
  const name = scenario.sealed[writer.sealed]
  if (name === undefined || writer.handed !== 0 || writer.whole !== 0) return []
  const { number, parent: parentName, flashblocks } = truth.block(name)
  const line = lineOf(writer, writer.pending)
  const above = line.slice(0, line.indexOf(writer.canonical))
  const candidate = above.find((id) => writer.blocks[id]!.number === number)
  const ours = candidate === undefined ? undefined : writer.blocks[candidate]!
  if (candidate !== undefined && ours?.block === name) {
    if (ours.state === 'complete')
      return [{ label: `writer hands over ${name}`, run: () => handOver(world, state, candidate) }]
    if (ours.state !== 'open') return []
    const index = ours.tag + 1
    const writes = index < flashblocks.length ? truth.writes(name, index) : {}
    return [
      {
        label: `writer completes ${name}`,
        run: () => setJob(world, state, { id: candidate, index, writes }),
      },
    ]
  }
  // whileOnItsWay: its flashblocks may still come.
  const isExpected = scenario.feed
    .slice(writer.feed)
    .some((packet) => packet !== 'flush' && packet[0] === name && packet[1] === 0)
  if (isExpected && ours === undefined) return []
  const parent = Object.keys(writer.blocks)
    .map(Number)
    .find((id) => {
      const { block, state: life } = writer.blocks[id]!
      return block === parentName && (life === 'canonical' || life === 'folded')
    })
  if (parent === undefined) return []
  if (freePages(world, state) === 0) {
    if (isWorthLooking(state))
      return [{ label: 'writer looks for pages', run: () => beginRecycle(state) }]
    // What stands above canonical is not what the source says.
    const to = world.rules.canonicalRoom ? writer.canonical : writer.complete
    if (writer.pending === to) return []
    return [{ label: 'writer has no page and flushes', run: () => flush(world, state, to) }]
  }
  return [
    {
      label: `writer executes ${name} whole`,
      run: () => {
        const { begun, id } = beginBlock(world, state, { name, parent, isWhole: true })
        const room = openTable(world, setWriter(begun, { whole: id }), id)
        return setJob(world, room, { id, index: 0, writes: truth.diff(name) })
      },
    },
  ]
}
