/** noopTracer: runs the transaction and shows nothing of it. */
import type { Tracer } from './types.ts'

export const noopTracer = (): Tracer => ({ sink: {}, result: () => ['{}'] })
