/** The way of one task's pieces to the front: they wait in the port until the task is over, outside of either thread's heap. */
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { collectPieces, type Piece } from '../../rpc/seam/pieces.ts'

export interface PieceChannel {
  /** The worker's end, to be transferred. */
  readonly port: MessagePort
  /** All that was put by a task that is over: what a thread posts is here before its answer is. */
  take(): readonly Uint8Array[]
  /** What was not taken is dropped. */
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

/** The worker's side. */
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
