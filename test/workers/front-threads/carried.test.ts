import { describe, expect, test } from 'vitest'
import { invalidArgument, RpcError } from '../../../rpc/core/errors.ts'
import { bytes } from '../../../rpc/json/codecs.ts'
import { booleanResult } from '../../../rpc/json/results.ts'
import {
  type FrontContext,
  frontMethod,
  type MethodContext,
  optional,
  param,
} from '../../../rpc/method/method.ts'
import { type Called, carried, passedOn } from '../../../workers/front-threads/carried.ts'

const own = frontMethod({
  name: 'dev_thing',
  summary: 'Does it.',
  hasEffect: true,
  weight: 7,
  params: [param('Data', bytes), optional('More', bytes)],
  result: booleanResult('Done'),
  handler: () => true,
})
const client = { address: '10.0.0.1', endpoint: 'flashblocks' } as FrontContext['client']
const context = { client } as unknown as MethodContext

/** Makes the method as a front thread gets it from its description. */
function inFrontThread(response: Called | undefined) {
  const requested: object[] = []
  const method = passedOn(structuredClone(carried(own)), async (call) => {
    requested.push(call)
    return response
  })
  return { method, requested }
}

describe('a method that runs on the main thread', () => {
  test('has the same description and weight on a front thread', () => {
    const { method } = inFrontThread(undefined)
    const { name, summary, hasEffect, weight, endpoints, runs } = own
    expect(method).toMatchObject({ name, summary, hasEffect, weight, endpoints, runs })
    expect(
      method.params.map(({ name, required, codec }) => [name, required, codec.schema]),
    ).toEqual(own.params.map(({ name, required, codec }) => [name, required, codec.schema]))
    expect(method.result).toEqual({ name: own.result.name, schema: own.result.schema })
  })

  test('gets its parameters unchanged, whatever they are', async () => {
    const { method, requested } = inFrontThread({ result: '{"a":1}' })
    expect(await method.invoke(context, ['0x1', { b: [2] }, 3])).toBe('{"a":1}')
    const [call] = requested
    expect(call).toMatchObject({ method: 'dev_thing', text: '["0x1",{"b":[2]},3]', client })
    expect(call).toMatchObject({ endpoint: 'flashblocks' })
  })

  test('returns its error unchanged', async () => {
    const error = invalidArgument(0, 'no').toObject()
    const failed = inFrontThread({ error }).method.invoke(context, [])
    await expect(failed).rejects.toThrow(RpcError)
    await expect(failed).rejects.toMatchObject({ message: error.message })
  })

  test('is busy when the main thread does not respond', async () => {
    await expect(inFrontThread(undefined).method.invoke(context, [])).rejects.toThrow(
      'server busy: the main thread does not answer',
    )
  })
})
