/** Methods of a development chain that return it to an earlier block. */
import { booleanResult, quantityResult } from '../../json/results.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { CONTROL, named, natural, type SendControl } from './controls.ts'

export const snapshotControls = (send: SendControl): readonly Method[] => [
  ...named(['evm_snapshot', 'anvil_snapshot'], (name) =>
    frontMethod({
      ...CONTROL,
      name,
      summary:
        'Seals the block in progress and returns the id of a snapshot of the chain at that block.',
      params: [],
      result: quantityResult('Id'),
      handler: async () => (await send({ type: 'snapshot' })).snapshot ?? 0,
    }),
  ),
  ...named(['evm_revert', 'anvil_revert'], (name) =>
    frontMethod({
      ...CONTROL,
      name,
      summary: 'Returns the chain to a snapshot, and deletes this snapshot and all later ones.',
      params: [param('Id', natural)],
      result: booleanResult('Whether the snapshot existed'),
      async handler(_context, id) {
        return (await send({ type: 'revert', id: Number(id) })).isReverted === true
      },
    }),
  ),
]
