/**
 * Carries the pieces of one task's result to the front thread. They wait in the port until the task
 * is over, outside of both heaps.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { collectPieces, type Piece } from '../../rpc/core/pieces.ts'

export interface PieceChannel {
  /** The worker's port, to be transferred. */
  readonly port: MessagePort
  /**
   * Takes all pieces of a finished task. None is missing, because a thread's posts arrive before
   * its response.
   */
  take(): readonly Uint8Array[]
  /** Closes the channel and drops the pieces that were not taken. */
  close(): void
}

export function openPieceChannel(): PieceChannel {
  const { port1, port2 } = new MessageChannel()
  return {
    port: port2,
    take: () => collectPieces(messagesOf(port1)),
    close: () => port1.close(),
  }
}

/** Sends a piece; called by the worker. */
export const putPiece =
  (port: MessagePort) =>
  (piece: Piece): void =>
    port.postMessage(piece, typeof piece === 'number' ? [] : [piece.buffer])

function* messagesOf(port: MessagePort): Generator<Piece, void> {
  for (;;) {
    const received = receiveMessageOnPort(port) as { readonly message: Piece } | undefined
    if (received === undefined) return
    yield received.message
  }
}
