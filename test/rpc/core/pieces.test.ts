/** A front collects a result in pieces: everything that a worker wrote and did not cut back. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LARGE } from '../../../rpc/core/exchange.ts'
import { collectPieces, type Piece, PieceWriter } from '../../../rpc/core/pieces.ts'
import { testRpc } from '../../fixtures/rpc.ts'

type Action = { readonly write: string; readonly isBytes: boolean } | { readonly cutTo: number }
const actionOf: fc.Arbitrary<Action> = fc.oneof(
  fc.record({
    write: fc.string({ unit: 'binary' }).map((text) => text.toWellFormed()),
    isBytes: fc.boolean(),
  }),
  fc.record({
    isBytes: fc.boolean(),
    write: fc
      .tuple(
        fc.constantFrom('x', 'ü', '€', '😀'),
        fc.oneof(fc.nat(9), fc.integer({ min: 50_000, max: LARGE })),
      )
      .map(([unit, count]) => unit.repeat(count)),
  }),
  fc.record({ cutTo: fc.double({ min: 0, max: 1, noNaN: true }) }),
)
const textOf = (writer: PieceWriter, put: readonly Piece[]): string =>
  writer.end() ?? Buffer.concat(collectPieces(put)).toString()

describe('a piece writer', () => {
  test('gives each of several consecutive texts unchanged', () => {
    const writer = new PieceWriter()
    fc.assert(
      fc.property(fc.array(actionOf, { maxLength: 30 }), (actions) => {
        const put: Piece[] = []
        writer.start(Number.POSITIVE_INFINITY, (piece) => void put.push(piece))
        const texts: string[] = []
        for (const action of actions) {
          if ('write' in action) {
            if (action.isBytes) writer.writeBytes(Buffer.from(action.write))
            else writer.write(action.write)
            texts.push(action.write)
          } else {
            const retained = Math.floor(action.cutTo * texts.length)
            texts.splice(retained)
            writer.cutTo(Buffer.byteLength(texts.join('')))
          }
          expect(writer.length).toBe(Buffer.byteLength(texts.join('')))
        }
        expect(textOf(writer, put) === texts.join('')).toBe(true)
        const sizes = put.flatMap((piece) => (typeof piece === 'number' ? [] : [piece.length]))
        expect(Math.max(0, ...sizes)).toBeLessThanOrEqual(LARGE)
      }),
      { numRuns: 200 },
    )
  })

  test('accepts nothing more at its limit until it is cut back', () => {
    const writer = new PieceWriter()
    writer.start(10, () => {})
    writer.write('12345')
    expect(writer.isFull).toBe(false)
    writer.write('678901')
    writer.write('6')
    writer.writeBytes(Buffer.from('6'))
    expect([writer.isFull, writer.length]).toEqual([true, 5])
    writer.cutTo(4)
    writer.write('567890')
    expect([writer.isFull, writer.end()]).toEqual([false, '1234567890'])
    writer.cutTo(4)
    writer.writeBytes(Buffer.from('567890'))
    expect([writer.isFull, writer.end()]).toEqual([false, '1234567890'])
    writer.writeBytes(Buffer.from('1'))
    expect([writer.isFull, writer.length]).toEqual([true, 10])
  })
})

describe('a result in pieces', () => {
  const to = '0x00000000000000000000000000000000000c0de1'
  // The code loops 2,000 times, then stops.
  const code = '0x6107d05b600190038060035700'
  const params = [{ to }, 'latest', { stateOverrides: { [to]: { code } } }]
  const request = (id: number) => ({ jsonrpc: '2.0', id, method: 'debug_traceCall', params })

  test('is the same alone, repeated, and in a batch', async () => {
    const rpc = testRpc()
    const single = await rpc.send(JSON.stringify(request(1)))
    expect(single.parts!.length).toBeGreaterThan(3)
    const { result } = JSON.parse(single.text!)
    expect(result.structLogs).toHaveLength(1 + 2_000 * 7 + 1)
    expect(result).toMatchObject({ failed: false, returnValue: '0x' })
    const repeated = await rpc.send(JSON.stringify(request(1)))
    expect(repeated.text === single.text).toBe(true)
    expect(rpc.poolCalls).toHaveLength(1)
    const chainId = { jsonrpc: '2.0', id: 2, method: 'eth_chainId', params: [] }
    const batch = await rpc.send(JSON.stringify([request(1), chainId]))
    expect(batch.text === `[${single.text},{"jsonrpc":"2.0","id":2,"result":"0xc4"}]`).toBe(true)
  })

  test('above the batch size is an error, as is each item after it', async () => {
    const size = (await testRpc().send(JSON.stringify(request(1)))).text!.length
    const rpc = testRpc({ limits: { batchResponseBytes: size * 2.5 } })
    const others = [1, 2, 3, 4].map((id) => ({
      ...request(id),
      params: [{ to, gas: `0x${(10_000_000 + id).toString(16)}` }, ...params.slice(1)],
    }))
    const responses = JSON.parse((await rpc.send(JSON.stringify(others))).text!)
    expect(responses.map(({ error }: { error?: { code: number } }) => error?.code)).toEqual([
      undefined,
      undefined,
      -32003,
      -32003,
    ])
  })

  test('above the response size is an error', async () => {
    const { text } = await testRpc({ limits: { responseBytes: 300_000 } }).send(
      JSON.stringify(request(1)),
    )
    expect(JSON.parse(text!).error).toEqual({
      code: -32000,
      message: 'trace of more than 300000 bytes',
    })
  })
})
