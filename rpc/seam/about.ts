/** What an answer is about: the parameter `at`, which is a block (number, tag or hash), one whose state is read, the hash of one or of a transaction, or a log query. */
export type About = {
  readonly is: 'block' | 'state' | 'blockHash' | 'transaction' | 'query'
  readonly at: number
}
