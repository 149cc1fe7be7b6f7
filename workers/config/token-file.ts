/** Reads a file that contains one secret. */
import { readFileSync } from 'node:fs'
import { isApiKey } from '../../rpc/core/api-keys.ts'

/** Reads the secret without the space around it. Problems never quote the secret. */
export function readToken(path: string): { readonly token: string } | { readonly problem: string } {
  try {
    const token = readFileSync(path, 'utf8').trim()
    return isApiKey(token)
      ? { token }
      : { problem: `token ${path}: expected 16 to 128 letters, digits, - and _` }
  } catch (error) {
    return { problem: `token ${path}: ${(error as Error).message.replaceAll('\n', ' ')}` }
  }
}

export function tokenProblems(path: string | undefined): readonly string[] {
  const read = path === undefined ? undefined : readToken(path)
  return read !== undefined && 'problem' in read ? [read.problem] : []
}
