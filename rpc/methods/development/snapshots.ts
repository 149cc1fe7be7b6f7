/** What only a development chain has: it goes back to where it was. */
import { booleanResult, quantityResult } from '../../json/results.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { CONTROL, named, natural, type SendControl } from './controls.ts'

export const snapshotControls = (send: SendControl): readonly Method[] => [
  ...named(['evm_snapshot', 'anvil_snapshot'], (name) =>
    frontMethod({
      ...CONTROL,
      name,
      summary: 'Seals the block in progress; the chain can be brought back to that block.',
      params: [],
      result: quantityResult('Id'),
      handler: async () => (await send({ type: 'snapshot' })).snapshot ?? 0,
    }),
  ),
  ...named(['evm_revert', 'anvil_revert'], (name) =>
    frontMethod({
      ...CONTROL,
      name,
      summary: 'Brings the chain back to a snapshot; it and later ones are gone then.',
      params: [param('Id', natural)],
      result: booleanResult('Whether there was one'),
      async handler(_context, id) {
        return (await send({ type: 'revert', id: Number(id) })).isReverted === true
      },
    }),
  ),
]
