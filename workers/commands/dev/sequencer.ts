/** Starts the sequencer's thread, which waits for the message `start`. */
import type { L1FeeInputs } from '../../../engine/sources/sequencer/attributes.ts'
import type { Source, SourceLink } from '../../node/role.ts'
import type { SequencerData } from '../../sequencer/sequencer.ts'
import { createInbox } from '../../thread/inbox.ts'
import type { FromSequencer, ToSequencer } from '../../thread/messages.ts'
import { startThread } from '../../thread/thread.ts'
import type { DevConfig } from './flags.ts'

/** Time that is reserved for stopping this thread, however long earlier parts take. */
const STOP_MS = 300

export function startSequencer(config: DevConfig, link: SourceLink): Source {
  const { context, persistence, writer, onLost, onEnded } = link
  const inbox = createInbox<FromSequencer>()
  const data: SequencerData = {
    ...link.data.shared,
    thread: link.row,
    persistence,
    writer,
    journal: link.data.directory.flashblocks,
    blockTimeMs: config.blockTimeMs,
    flashblockTimeMs: config.flashblockTimeMs,
    form: config.feedForm,
    gaslessBlockGasLimit: config.gaslessBlockGasLimit,
    l1: l1FeeInputs(config),
  }
  const thread = startThread<ToSequencer, FromSequencer>({
    name: 'sequencer',
    file: new URL('../../sequencer/sequencer.ts', import.meta.url),
    data,
    transfer: [persistence, writer],
    onMessage: inbox.push,
    onLost,
    onEnded,
  })
  const stop = (withinMs: number) => thread.stop({ type: 'stop' }, withinMs)
  context.lifecycle.onStop('the sequencer', stop, { minMs: STOP_MS })
  return {
    async connect(parts) {
      const { connectNetwork } = await import('./network.ts')
      const { blockTimeMs, limits } = config
      return connectNetwork({ ...parts, thread, inbox, blockTimeMs, limits, context })
    },
  }
}

const l1FeeInputs = (config: DevConfig): L1FeeInputs => ({
  baseFee: BigInt(config.l1BaseFee),
  blobBaseFee: BigInt(config.l1BlobBaseFee),
  baseFeeScalar: BigInt(config.l1BaseFeeScalar),
  blobBaseFeeScalar: BigInt(config.l1BlobBaseFeeScalar),
  operatorFeeScalar: BigInt(config.operatorFeeScalar),
  operatorFeeConstant: BigInt(config.operatorFeeConstant),
  daFootprintGasScalar: BigInt(config.daFootprintScalar),
})
