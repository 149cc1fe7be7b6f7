/**
 * The main thread knows from its requests and their responses whether a development chain is
 * paused.
 */
import { beforeEach, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
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
const respond = (request: number | undefined, reason?: string) =>
  controls.respond(
    reason === undefined ? { request: request!, done: {} } : { request: request!, reason },
  )

test('a chain counts as paused from the pause request until resume is done', async () => {
  const paused = controls.send({ type: 'pause' })
  expect(controls.isPaused()).toBe(true)
  respond(posted[0])
  await paused
  const resumed = controls.send({ type: 'resume' })
  expect(controls.isPaused()).toBe(true)
  respond(posted[1])
  await resumed
  expect(controls.isPaused()).toBe(false)
})

test('a chain is running again even if the sequencer waited for a block in vain', async () => {
  const paused = controls.send({ type: 'pause' })
  respond(posted[0])
  await paused
  const resumed = controls.send({ type: 'resume' })
  respond(posted[1], 'the newest block is not canonical yet')
  await expect(resumed).rejects.toThrow('the newest block is not canonical yet')
  expect(controls.isPaused()).toBe(false)
})

test('the last of two concurrent pause and resume requests decides', async () => {
  const both = [controls.send({ type: 'resume' }), controls.send({ type: 'pause' })]
  for (const request of posted) respond(request)
  await Promise.all(both)
  expect(controls.isPaused()).toBe(true)
})
