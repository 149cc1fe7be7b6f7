/** Whether a development chain stands still, as the main thread has it from what it asks and what it is answered. */
import { beforeEach, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import { type Controls, createControls } from '../../../workers/commands/dev/controls.ts'
import type { ToSequencer } from '../../../workers/thread/messages.ts'

let controls: Controls
let posted: number[]
beforeEach(() => {
  posted = []
  const post = (message: ToSequencer) => {
    if (message.type === 'control') posted.push(message.request)
  }
  controls = createControls({ post }, DEFAULT_LIMITS)
})
const answer = (request: number | undefined, reason?: string) =>
  controls.answer(
    reason === undefined ? { request: request!, done: {} } : { request: request!, reason },
  )

test('paused at the word, running once it is done', async () => {
  const paused = controls.send({ type: 'pause' })
  expect(controls.isPaused()).toBe(true)
  answer(posted[0])
  await paused
  const resumed = controls.send({ type: 'resume' })
  expect(controls.isPaused()).toBe(true)
  answer(posted[1])
  await resumed
  expect(controls.isPaused()).toBe(false)
})

test('running also where the sequencer has waited in vain for the block before', async () => {
  const paused = controls.send({ type: 'pause' })
  answer(posted[0])
  await paused
  const resumed = controls.send({ type: 'resume' })
  answer(posted[1], 'the newest block is not canonical yet')
  await expect(resumed).rejects.toThrow('the newest block is not canonical yet')
  expect(controls.isPaused()).toBe(false)
})

test('the last one counts, also where both are under way', async () => {
  const both = [controls.send({ type: 'resume' }), controls.send({ type: 'pause' })]
  for (const request of posted) answer(request)
  await Promise.all(both)
  expect(controls.isPaused()).toBe(true)
})
