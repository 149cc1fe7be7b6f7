/** These are limits for the form of one request. */
import { testRpc } from '../../fixtures/rpc.ts'
import { type Row, row, type Some } from './row.ts'

/** Gives the error of a request with these parameters; 'taken' where its form is valid. */
const said =
  (params: string, more: { readonly id?: string; readonly method?: string } = {}): Row['see'] =>
  async (limits) => {
    const { id = '1', method = '"web3_sha3"' } = more
    const body = `{"jsonrpc":"2.0","id":${id},"method":${method},"params":${params}}`
    const { text } = await testRpc({ limits }).send(body)
    const { error } = JSON.parse(text!) as { readonly error?: { message: string; code: number } }
    return error === undefined || ![-32600, -32700].includes(error.code) ? 'taken' : error.message
  }
const batch = async (limits: Parameters<Row['see']>[0], count: number): Promise<string> => {
  const one = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
  return (await testRpc({ limits }).send(`[${Array(count).fill(one).join()}]`)).text!
}

export const REQUESTS = {
  jsonDepth: row(3, 'parse error: nested deeper than 3', said('[[[[]]]]')),
  objectKeys: row(2, 'parse error: object with more than 2 keys', said('[{"a":1,"b":2,"c":3}]')),
  jsonValues: row(5, 'parse error: more than 5 values', said('[1,2,3,4,5,6]')),
  jsonKeyCharacters: row(
    10,
    'parse error: key longer than 10 characters',
    said(`[{"${'k'.repeat(11)}":1}]`),
  ),
  jsonNumberCharacters: row(3, 'parse error: number longer than 3 characters', said('[1234]')),
  jsonTextCharacters: row(
    12,
    'parse error: string longer than 12 characters',
    said(`["${'t'.repeat(13)}"]`),
  ),
  jsonHexCharacters: row(
    12,
    'parse error: string longer than 12 characters',
    said(`["0x${'0'.repeat(12)}"]`),
  ),
  idCharacters: row(3, 'parse error: id longer than 3 characters', said('[]', { id: '"abcd"' })),
  methodCharacters: row(
    3,
    'parse error: method longer than 3 characters',
    said('[]', { method: '"abcd"' }),
  ),
  batchItems: row(2, true, async (limits) => (await batch(limits, 3)).includes('batch too large')),
  batchResponseBytes: row(60, true, async (limits) =>
    (await batch(limits, 3)).includes('response too large'),
  ),
} satisfies Some
