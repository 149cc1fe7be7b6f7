import type { checks } from '../../kit/checks.ts'

/** What a section of the check counts with. */
export type Checks = Pick<ReturnType<typeof checks>, 'check' | 'skip'>
