/** What the keeper measures. */
import type { DatabaseStats } from '../database/types.ts'

export type KeeperStats = DatabaseStats & {
  readonly durableNumber: number
  readonly foldedNumber: number
  /** Appended blocks that are not folded. */
  readonly foldLag: number
  readonly queuedRequests: number
}
