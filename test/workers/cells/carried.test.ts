import { describe, expect, test } from 'vitest'
import { bytes } from '../../../rpc/json/codecs.ts'
import { booleanResult } from '../../../rpc/json/results.ts'
import {
  type FrontContext,
  frontMethod,
  type MethodContext,
  optional,
  param,
} from '../../../rpc/method/method.ts'
import { invalidArgument, RpcError } from '../../../rpc/seam/errors.ts'
import { type Called, carried, passedOn } from '../../../workers/cells/carried.ts'

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

/** As a cell has it, which is sent what the method is. */
function inCell(answer: Called | undefined) {
  const asked: object[] = []
  const method = passedOn(structuredClone(carried(own)), async (call) => {
    asked.push(call)
    return answer
  })
  return { method, asked }
}

describe('a method that runs on the main thread', () => {
  test('is described and charged as where it runs', () => {
    const { method } = inCell(undefined)
    const { name, summary, hasEffect, weight, endpoints, runs } = own
    expect(method).toMatchObject({ name, summary, hasEffect, weight, endpoints, runs })
    expect(
      method.params.map(({ name, required, codec }) => [name, required, codec.schema]),
    ).toEqual(own.params.map(({ name, required, codec }) => [name, required, codec.schema]))
    expect(method.result).toEqual({ name: own.result.name, schema: own.result.schema })
  })

  test('gets the parameters as they came, whatever they are', async () => {
    const { method, asked } = inCell({ result: '{"a":1}' })
    expect(await method.invoke(context, ['0x1', { b: [2] }, 3])).toBe('{"a":1}')
    const [call] = asked
    expect(call).toMatchObject({ method: 'dev_thing', text: '["0x1",{"b":[2]},3]', client })
    expect(call).toMatchObject({ endpoint: 'flashblocks' })
  })

  test('gives its error as it was', async () => {
    const error = invalidArgument(0, 'no').toObject()
    const failed = inCell({ error }).method.invoke(context, [])
    await expect(failed).rejects.toThrow(RpcError)
    await expect(failed).rejects.toMatchObject({ message: error.message })
  })

  test('is busy where the main thread does not answer', async () => {
    await expect(inCell(undefined).method.invoke(context, [])).rejects.toThrow(
      'server busy: the main thread does not answer',
    )
  })
})
