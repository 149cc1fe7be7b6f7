import type { checks } from '../../kit/checks.ts'

/** A section of the check counts with these. */
export type Checks = Pick<ReturnType<typeof checks>, 'check' | 'skip'>
