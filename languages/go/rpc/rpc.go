// SPDX-License-Identifier: Apache-2.0

// Package rpc is a client of Rubato RPC over TCP, by docs/RPC.md alone; pure Go. Any number of
// goroutines share a session; a call waits while the server gives it no credit, and is given up
// unsent when its time is over. Nothing is retried.
package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	hello      = 0x01
	request    = 0x02
	demand     = 0x03
	goodbye    = 0x04
	welcome    = 0x81
	response   = 0x82
	credit     = 0x83
	refusal    = 0x84
	fault      = 0x85
	headerSize = 24
	mostBody   = 16 << 20
	session    = 1
)

// ErrExpired: the request was never sent, as it waited for credit until its context was over.
var ErrExpired = errors.New("rubato rpc: no credit in time")

// ErrLost: the request was sent and no answer came; it may have been run.
var ErrLost = errors.New("rubato rpc: no answer")

// Refused: the server did not run the request.
type Refused struct {
	Reason     byte // 1 overloaded, 2 queues full, 4 beyond the credit
	Class      byte // 0 unknown, 1 short, 2 long
	RetryAfter time.Duration
}

func (r *Refused) Error() string {
	return fmt.Sprintf("rubato rpc: refused for reason %d, retry after %v", r.Reason, r.RetryAfter)
}

// Failed: by the application, with its text.
type Failed struct{ Text string }

func (f *Failed) Error() string { return "rubato rpc: failed: " + f.Text }

type frame struct {
	kind            byte
	session, amount uint32
	id              uint64
	body            []byte
}

func (f frame) encode() []byte {
	bytes := make([]byte, headerSize, headerSize+len(f.body))
	copy(bytes, []byte{'R', 'B', 1, f.kind})
	binary.BigEndian.PutUint32(bytes[4:], uint32(len(f.body)))
	binary.BigEndian.PutUint32(bytes[8:], f.session)
	binary.BigEndian.PutUint32(bytes[12:], f.amount)
	binary.BigEndian.PutUint64(bytes[16:], f.id)
	return append(bytes, f.body...)
}

func read(from io.Reader) (frame, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(head[4:])
	if head[0] != 'R' || head[1] != 'B' || head[2] != 1 || size > mostBody {
		return frame{}, errors.New("no frame of Rubato RPC")
	}
	f := frame{head[3], binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint32(head[12:]),
		binary.BigEndian.Uint64(head[16:]), make([]byte, size)}
	_, err := io.ReadFull(from, f.body)
	return f, err
}

type answer struct {
	body []byte
	err  error
}

// A Client is a session with a server.
type Client struct {
	socket net.Conn
	over   chan struct{}

	mutex      sync.Mutex // guards all below, and the order of what is sent
	changed    chan struct{}
	waiting    map[uint64]chan answer
	credit     uint32
	queued     uint32
	demanded   bool
	greeted    bool
	welcomed   bool
	spentFirst bool
	lastID     uint64
	lost       error
}

// Dial connects; the session begins with the first call.
func Dial(address string) (*Client, error) {
	socket, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{socket: socket, over: make(chan struct{}), changed: make(chan struct{}),
		waiting: make(map[uint64]chan answer)}
	go c.receive()
	return c, nil
}

// Call sends a request and waits for its reply, both within the time of the context.
func (c *Client) Call(ctx context.Context, body []byte) ([]byte, error) {
	if len(body) > mostBody {
		return nil, fmt.Errorf("rubato rpc: a body has at most %d bytes", mostBody)
	}
	id, answered, err := c.start(ctx, body)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		return a.body, a.err
	case <-ctx.Done():
		c.mutex.Lock()
		delete(c.waiting, id) // a late answer finds nobody
		c.wake()
		c.mutex.Unlock()
		return nil, fmt.Errorf("%w: %v", ErrLost, ctx.Err())
	}
}

// Credit is how many requests may be unanswered at once, as the server said last.
func (c *Client) Credit() uint32 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.credit
}

// Close says goodbye; what has no answer yet is lost.
func (c *Client) Close() {
	c.mutex.Lock()
	c.send(goodbye, 0, nil)
	c.mutex.Unlock()
	c.socket.Close()
	<-c.over
}

// start waits for credit and sends.
func (c *Client) start(ctx context.Context, body []byte) (uint64, chan answer, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.queued++
	for c.lost == nil && !c.maySend() {
		if c.welcomed && !c.demanded {
			c.send(demand, 0, nil)
			continue
		}
		if !c.wait(ctx) {
			c.queued--
			if c.queued == 0 && len(c.waiting) == 0 && c.demanded {
				c.send(demand, 0, nil)
			}
			return 0, nil, fmt.Errorf("%w: %v", ErrExpired, ctx.Err())
		}
	}
	c.queued--
	if c.lost != nil {
		return 0, nil, fmt.Errorf("%w: %v", ErrLost, c.lost)
	}
	kind := byte(request)
	if !c.greeted {
		kind = hello
	}
	c.greeted, c.spentFirst = true, true
	c.lastID++
	answered := make(chan answer, 1)
	c.waiting[c.lastID] = answered
	c.send(kind, c.lastID, body)
	return c.lastID, answered, nil
}

// The first request needs no credit.
func (c *Client) maySend() bool {
	allowed := c.credit
	if !c.spentFirst && allowed == 0 {
		allowed = 1
	}
	return (c.welcomed || !c.greeted) && len(c.waiting) < int(allowed)
}

// wait lets others in until something has changed; false: the context is over.
func (c *Client) wait(ctx context.Context) bool {
	changed := c.changed
	c.mutex.Unlock()
	defer c.mutex.Lock()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// send tells the queue's length in each frame. What cannot be sent, the reader finds out as well.
func (c *Client) send(kind byte, id uint64, body []byte) {
	c.demanded = c.queued > 0
	amount := c.queued
	if amount > 65535 {
		amount = 65535
	}
	if _, err := c.socket.Write(frame{kind, session, amount, id, body}.encode()); err != nil {
		c.socket.Close()
	}
}

func (c *Client) receive() {
	defer close(c.over)
	for {
		f, err := read(c.socket)
		if err == nil {
			err = c.take(f)
		}
		if err == nil {
			continue
		}
		c.socket.Close()
		c.mutex.Lock()
		c.lost = err
		for id, answered := range c.waiting {
			answered <- answer{nil, fmt.Errorf("%w: %v", ErrLost, err)}
			delete(c.waiting, id)
		}
		c.wake()
		c.mutex.Unlock()
		return
	}
}

func (c *Client) take(f frame) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	defer c.wake()
	var a answer
	switch {
	case f.kind == fault && f.id == 0:
		return errors.New(string(f.body))
	case f.kind == fault:
		a.err = &Failed{string(f.body)}
	case f.kind == refusal && len(f.body) == 8:
		micros := binary.BigEndian.Uint32(f.body[4:])
		a.err = &Refused{f.body[0], f.body[1], time.Duration(micros) * time.Microsecond}
	case f.kind == response:
		a.body = f.body
	case f.kind != welcome && f.kind != credit:
		return fmt.Errorf("a frame of kind %#x", f.kind)
	}
	if f.kind != fault {
		c.welcomed, c.credit = true, f.amount
	}
	if answered, waits := c.waiting[f.id]; waits {
		delete(c.waiting, f.id)
		answered <- a
	}
	return nil
}
