/** The command prints a node's own description, and the page in docs/ matches the code. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { openrpcText } from '../../../workers/commands/openrpc/openrpc.ts'
import { testRpc } from '../../fixtures/rpc.ts'

test.each(['flashblocks', 'standard'] as const)(
  'the document of the %s endpoint equals rpc.discover',
  async (endpoint) => {
    const { result } = await testRpc().request('rpc.discover', [], { endpoint })
    const said = result as { readonly methods: readonly object[] }
    const printed = JSON.parse(
      openrpcText({ endpoint, methods: 'all', form: 'json', limits: DEFAULT_LIMITS }),
    ) as typeof said
    expect(printed.methods).toEqual(said.methods)
    const listed = JSON.parse(
      openrpcText({ endpoint, methods: 'standard', form: 'json', limits: DEFAULT_LIMITS }),
    ) as typeof said
    expect(listed.methods.length).toBeLessThan(said.methods.length)
    expect(said.methods).toEqual(expect.arrayContaining([...listed.methods]))
  },
)

test('docs/methods.md equals the output of the command', () => {
  const page = openrpcText({
    endpoint: 'flashblocks',
    methods: 'all',
    form: 'markdown',
    limits: DEFAULT_LIMITS,
  })
  expect(readFileSync('docs/methods.md', 'utf8')).toBe(page)
})
