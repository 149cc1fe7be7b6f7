/** Reverts to a position of the journal. */
import { A_BALANCE, A_CODE, A_FLAGS, A_HASH, A_NONCE, IS_THERE, unstamp } from './accounts'
import {
  J_BALANCE, J_CLEARED, J_CODE, J_FLAGS, J_NONCE, J_SLOT, J_TRANSIENT, J_WARM_SLOT, journalEnd, kindAt, numberAt, recordAt, takeLast, wordAt,
} from './journal'
import { S_VALUE, unclearStorage, unstampSlot } from './slots'
import { undoTransient } from './transient'
import { copy } from '../primitives/u256'

export function revertTo(position: usize): void {
  while (journalEnd > position) undo(takeLast())
}

function undo(at: usize): void {
  const kind = kindAt(at)
  const record = recordAt(at)
  switch (kind) {
    case J_SLOT:
      copy(record + S_VALUE, wordAt(at))
      break
    case J_BALANCE:
      copy(record + A_BALANCE, wordAt(at))
      restoreThere(record, <u32>numberAt(at))
      break
    case J_NONCE:
      store<u64>(record, numberAt(at), A_NONCE)
      break
    case J_FLAGS:
      restoreThere(record, <u32>numberAt(at))
      break
    case J_CODE:
      store<u32>(record, <u32>numberAt(at), A_CODE)
      copy(record + A_HASH, wordAt(at))
      break
    case J_CLEARED:
      unclearStorage(record)
      break
    case J_TRANSIENT:
      undoTransient(record, <u32>numberAt(at), wordAt(at))
      break
    case J_WARM_SLOT:
      unstampSlot(record, <u32>numberAt(at))
      break
    default:
      unstamp(kind, record, <u32>numberAt(at))
  }
}

/** Restores IS_THERE only, because the other flags are not part of the change. */
function restoreThere(record: usize, before: u32): void {
  store<u32>(record, (load<u32>(record, A_FLAGS) & ~IS_THERE) | (before & IS_THERE), A_FLAGS)
}
