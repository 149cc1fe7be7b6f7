/**
 * This command reads one case of an OP block from each line of stdin. It writes one header for each
 * case to stdout. The outside runner's --cmd has this protocol.
 */
import { createInterface } from 'node:readline'
import {
  type AssembleCase,
  assembleBlock,
  type ExecuteCase,
  executePayload,
} from '../fixtures/op-replay.ts'
import { engineOption } from './engine-option.ts'

const engine = engineOption()

for await (const line of createInterface({ input: process.stdin })) {
  if (line === '') continue
  const one = JSON.parse(line) as (ExecuteCase | AssembleCase) & { readonly id: string }
  try {
    const response = one.kind === 'execute' ? await executePayload(one, engine) : assembleBlock(one)
    console.log(JSON.stringify({ id: one.id, ...response }))
  } catch (error) {
    console.log(JSON.stringify({ id: one.id, error: String((error as Error).stack) }))
  }
}
