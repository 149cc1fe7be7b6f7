/** A follower reports upstreams that do not respond, or that have no new block. */
import { expect, test } from 'vitest'
import type { TrackerStatus } from '../../../engine/sources/upstream/tracker-types.ts'
import { createCatchUp } from '../../../workers/commands/follow/catch-up.ts'

const status = (head: number | undefined): TrackerStatus => ({
  head,
  canonical: 7,
  degraded: [],
  halted: undefined,
  catchUp: undefined,
  upstreams: [{ name: 'a', head, rests: undefined }],
})
function open() {
  const clock = { at: 0 }
  const catchUp = createCatchUp({ info() {}, debug() {} }, 0, () => clock.at)
  const texts = (list: readonly { readonly text: string }[]) => list.map(({ text }) => text)
  return {
    clock,
    catchUp,
    lagging: () => texts(catchUp.lagging()),
    silence: () => texts(catchUp.silence()),
  }
}

test('the status reports that no upstream has responded since the start', async () => {
  const { catchUp, lagging } = open()
  expect(lagging()).toEqual([
    'no upstream has answered since the start: answers are those of our own head',
  ])
  await catchUp.done
  catchUp.update(status(undefined))
  expect(lagging()).toEqual([
    'no upstream has answered since the start: answers are those of our own head, block 7',
  ])
  catchUp.update(status(9))
  catchUp.update(status(undefined))
  expect(lagging()).toEqual([])
})

test('the status reports upstreams without a new block, and for how long', () => {
  const { clock, catchUp, silence } = open()
  clock.at = 60_000
  expect(silence()).toEqual([])
  catchUp.update(status(9))
  clock.at += 7_000
  catchUp.update(status(9))
  expect(silence()).toEqual([])
  clock.at += 500
  expect(silence()).toEqual(['the upstreams have told of no new block for 7.5 s, the newest is 9'])
  catchUp.update(status(10))
  expect(silence()).toEqual([])
})
