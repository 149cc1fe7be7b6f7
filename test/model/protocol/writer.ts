/**
 * The writer of engine/sources/writer handles one event at a time. Each store to shared memory is a
 * step.
 */
import { isFinished } from '../../../engine/chain/block-state.ts'
import type { Step } from '../explore.ts'
import { jobStep, setJob, startBlock } from './job.ts'
import { flush, setWriter } from './live-chain.ts'
import type { State, World, Writer } from './model-state.ts'
import {
  freePages,
  hasCapacityInRing,
  isWorthLooking,
  lineOf,
  openDiffLayer,
  recycleStep,
  startRecycle,
} from './publisher.ts'
import { responseSteps, submit } from './responses.ts'
import { FINAL } from './scenario.ts'

/**
 * Models apply of engine/sources/writer/writer.ts, with tryUpstreamBlock and resumePackets inside:
 * any order of the messages.
 */
export function writerSteps(world: World, state: State): Step<State>[] {
  const { writer } = state
  if (writer.recycle !== null) return [recycleStep(world, state)]
  if (!hasCapacityInRing(world, state)) {
    const { rows, head } = state.words
    const oldest = Math.min(head, ...rows.filter((row) => row !== 0).map(Math.abs))
    if (oldest <= writer.bound) return []
    return [{ label: 'writer makes room in the ring', run: () => startRecycle(state) }]
  }
  if (writer.job !== null) return [jobStep(world, state)]
  return [
    ...responseSteps(world, state),
    ...feedSteps(world, state),
    ...upstreamSteps(world, state),
  ]
}

/** The writer has finished. Packets that fit no block do not count. */
export const isWriterDone = ({ scenario }: World, { writer, responses }: State): boolean =>
  responses.length === 0 &&
  writer.job === null &&
  writer.upstreamTaken === scenario.upstreamBlocks.length

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
    const { block, state: blockState, tag } = writer.blocks[writer.pending]!
    if (block !== name || blockState !== 'open' || tag !== index - 1) return [skip]
    const isSplit = scenario.isLarge === true && index === 1
    if (isSplit && freePages(world, state) === 0) return outOfPages(world, state, taken)
    return [
      {
        label: `writer executes ${name}.${index}`,
        run: () => {
          const capacity = isSplit ? openDiffLayer(world, taken, writer.pending) : taken
          return setJob(world, capacity, {
            id: writer.pending,
            index,
            writes: truth.writes(name, index),
          })
        },
      },
    ]
  }
  const { number, parent: parentName } = truth.block(name)
  const decided = [writer.canonical, world.rules.submittedHeight ? writer.submitted : 0]
  // Models heightsOf: a submitted block counts as canonical.
  if (decided.some((id) => number <= (writer.blocks[id]?.number ?? 0))) return [skip]
  const parent = bufferedParent(writer, parentName)
  if (parent === undefined) {
    const isOnItsWay = Object.values(writer.blocks).some(
      ({ block, state: blockState }) => block === parentName && blockState !== 'dropped',
    )
    return isOnItsWay ? [] : [skip]
  }
  if (freePages(world, state) === 0) return outOfPages(world, state, taken)
  return [{ label: `writer begins ${name}`, run: () => startLive(world, taken, { name, parent }) }]
}

/** Models parentOf of packets.ts. */
function bufferedParent(writer: Writer, name: string): number | undefined {
  const line = lineOf(writer, writer.pending)
  const min = writer.blocks[writer.canonical]!.number
  return line.find((id) => {
    const { block, state: blockState, number } = writer.blocks[id]!
    return block === name && isFinished(blockState) && number >= min
  })
}

function startLive(
  world: World,
  state: State,
  { name, parent }: { readonly name: string; readonly parent: number },
): State {
  const { started, id } = startBlock(world, state, { name, parent, isFullBlock: false })
  const { writer } = started
  const reused = Object.entries(writer.blocks).find(
    ([, other]) => other.parent === parent && other.tag !== FINAL && other.tag >= 0,
  )
  const opened =
    world.rules.newDiffLayer || reused === undefined
      ? openDiffLayer(world, started, id)
      : setWriter(started, {
          blocks: {
            ...writer.blocks,
            [reused[0]]: { ...reused[1], diffLayers: [] },
            [id]: { ...writer.blocks[id]!, diffLayers: reused[1].diffLayers },
          },
        })
  return setJob(world, opened, { id, index: 0, writes: world.truth.writes(name, 0) })
}

/** Models freeMemory of writer-state.ts: the flashblock is given up, and pending with it. */
function outOfPages(world: World, state: State, taken: State): Step<State>[] {
  if (isWorthLooking(state))
    return [{ label: 'writer looks for pages', run: () => startRecycle(state) }]
  return [{ label: 'writer has no page and flushes', run: () => flush(world, taken) }]
}

function upstreamSteps(world: World, state: State): Step<State>[] {
  const { scenario, truth } = world
  const { writer } = state
  const name = scenario.upstreamBlocks[writer.upstreamTaken]
  if (name === undefined || writer.submitted !== 0 || writer.fullBlock !== 0) return []
  const { number, parent: parentName, flashblocks } = truth.block(name)
  const line = lineOf(writer, writer.pending)
  const above = line.slice(0, line.indexOf(writer.canonical))
  const candidate = above.find((id) => writer.blocks[id]!.number === number)
  const ours = candidate === undefined ? undefined : writer.blocks[candidate]!
  if (candidate !== undefined && ours?.block === name) {
    if (ours.state === 'complete')
      return [{ label: `writer submits ${name}`, run: () => submit(world, state, candidate) }]
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
  // Models whileOnItsWay of upstream-block.ts: flashblocks of the block may still come.
  const isExpected = scenario.feed
    .slice(writer.feed)
    .some((packet) => packet !== 'flush' && packet[0] === name && packet[1] === 0)
  if (isExpected && ours === undefined) return []
  const parent = Object.keys(writer.blocks)
    .map(Number)
    .find((id) => {
      const { block, state: blockState } = writer.blocks[id]!
      return block === parentName && (blockState === 'canonical' || blockState === 'persisted')
    })
  if (parent === undefined) return []
  if (freePages(world, state) === 0) {
    if (isWorthLooking(state))
      return [{ label: 'writer looks for pages', run: () => startRecycle(state) }]
    // Blocks above canonical contradict the source, so they give way.
    const to = world.rules.canonicalCapacity ? writer.canonical : writer.complete
    if (writer.pending === to) return []
    return [{ label: 'writer has no page and flushes', run: () => flush(world, state, to) }]
  }
  return [
    {
      label: `writer executes ${name} whole`,
      run: () => {
        const { started, id } = startBlock(world, state, { name, parent, isFullBlock: true })
        const capacity = openDiffLayer(world, setWriter(started, { fullBlock: id }), id)
        return setJob(world, capacity, { id, index: 0, writes: truth.diff(name) })
      },
    },
  ]
}
